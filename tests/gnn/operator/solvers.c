/* tests/gnn/operator/solvers.c - the solvers of examples/solvers.h against solutions in closed form */
#define T_GNN
#include "t.h"
#include "../../../examples/solvers.h"

/* k = 1 on a strip: x (1 - x) / 2, at most 1/8; two layers of k, and the residual of a square with random k */
static void test_darcy(void)
{
    enum { N = 31 };
    static double k[N * N], u[N * N], y[N * N], work[4 * N * N];
    static unsigned char inside[N * N];
    darcy_field f;
    double most = 0, sum = 0;
    int i, n_inside = 0;
    for (i = 0; i < N; i++) k[i] = 1;
    T_TRUE(darcy_solve(k, NULL, 1, N, 1e-12, u, work) > 0);
    for (i = 0; i < N; i++) {
        const double x = (i + 1) / 32.0;
        T_CLOSE(u[i], x * (1 - x) / 2, 1e-12);
        most = fmax(most, u[i]);
    }
    T_CLOSE(most, 0.125, 1e-12);
    for (i = 0; i < N; i++) k[i] = 4;
    T_TRUE(darcy_solve(k, NULL, 1, N, 1e-12, u, work) > 0);
    T_CLOSE(u[15], 0.125 / 4, 1e-12);
    for (i = 0; i < N * N; i++) k[i] = t_rand_below(2) ? 12 : 3;
    T_TRUE(darcy_solve(k, NULL, N, N, 1e-8, u, work) > 0);
    f.k = k;
    f.inside = NULL;
    f.rows = f.columns = N;
    darcy_times(y, u, &f);
    for (i = 0; i < N * N; i++) sum += (y[i] - 1) * (y[i] - 1);
    T_CLOSE(sqrt(sum / (N * N)), 0, 1e-7);
    for (i = 0; i < N * N; i++) T_TRUE(u[i] > 0);
    T_PROOF("geometry 3", "data: Darcy k = 1 on the strip gives x(1-x)/2 with maximum .125; CG residual");
    /* a shape: nothing outside, and inside it what a rectangle of the same size gives */
    shape_mask(inside, N, 6, 0.48, 0.3, 0.4, 0.3);
    T_TRUE(darcy_solve(k, inside, N, N, 1e-8, u, work) > 0);
    f.inside = inside;
    darcy_times(y, u, &f);
    for (sum = 0, i = 0; i < N * N; i++) {
        n_inside += inside[i];
        sum += (y[i] - inside[i]) * (y[i] - inside[i]);
        T_TRUE(inside[i] ? u[i] > 0 : u[i] == 0);
    }
    T_CLOSE(sqrt(sum / n_inside), 0, 1e-7);
    /* area of the hexagon less that of the hole and of the slit */
    T_CLOSE(n_inside, 961 * (2.598 * 0.2304 - 3.1416 * 0.0207 - 0.192 * (0.4157 - 0.144)), 30);
    memset(inside, 0, sizeof inside);
    for (i = 0; i < 15 * N; i++) inside[3 * N + i] = i % N < 7;
    for (i = 0; i < N * N; i++) k[i] = 2;
    T_TRUE(darcy_solve(k, inside, N, N, 1e-12, u, work) > 0);
    T_TRUE(darcy_solve(k, NULL, 15, 7, 1e-12, y, work) > 0);
    for (i = 0; i < 15 * 7; i++)            /* other h: 32 and 8 points to one */
        T_CLOSE(u[(3 + i / 7) * N + i % 7] * 32 * 32, y[i] * 8 * 8, 1e-9);
    T_PROOF("geometry 4", "solver checks: Darcy k = 1 on the strip gives x(1-x)/2 with maximum .125; CG residual");
}

/* without holes the temperature falls evenly; with holes as much heat leaves as comes in, and more holes let less in */
static void test_heat(void)
{
    static const int n[3] = { 12, 7, 4 };
    enum { ALL = 12 * 7 * 4, LAYER = 7 * 4 };
    static double u[ALL], y[ALL], work[4 * ALL];
    unsigned char inside[ALL];
    heat_plate f;
    double in = 0, out = 0, whole = 0, worst = 0;
    int i;
    memset(inside, 1, sizeof inside);
    T_TRUE(heat_solve(inside, n, 1e-12, u, work) > 0);
    for (i = 0; i < ALL; i++) {
        T_CLOSE(u[i], 1 - (i / LAYER + 0.5) / 12, 1e-10);
        if (i < LAYER) whole += 2 * (1 - u[i]);
    }
    for (i = 0; i < ALL; i++) if (i / LAYER > 3 && i / LAYER < 7 && i / 4 % 7 > 1 && i / 4 % 7 < 6) inside[i] = 0;
    T_TRUE(heat_solve(inside, n, 1e-10, u, work) > 0);
    f.inside = inside;
    f.n = n;
    heat_times(y, u, &f);
    for (i = 0; i < ALL; i++) {
        if (i < LAYER) in += 2 * (1 - u[i]);
        if (i >= ALL - LAYER) out += 2 * u[i];
        worst = fmax(worst, fabs(y[i] - (i < LAYER ? 2 : 0)));
        T_TRUE(inside[i] ? u[i] > 0 && u[i] < 1 : u[i] == 0);
    }
    T_CLOSE(in, out, 1e-8);
    T_CLOSE(worst, 0, 1e-8);
    T_TRUE(in < 0.9 * whole);
    T_PROOF("geometry 4", "solver checks: heat of a plate falls evenly; with holes, as much leaves as comes in");
}

/* u' = u (1 - u) from .1; a cosine that decays; a step of half the size has a quarter of the error */
static void test_fisher(void)
{
    enum { N = 32 };
    static const double logistic[5] = { 0, 1, -1, 0, 0 }, none[5] = { 0, 0, 0, 0, 0 }, strong[5] = { 0, 5, -5, 0, 0 };
    static double e[N * N];
    double u[N], v[3][N], work[5 * N], error[2];
    int i, s;
    fisher_matrix(e, N, 0.01 * 0.05 / 2, work);
    for (i = 0; i < N; i++) u[i] = 0.1;
    fisher_run(u, N, e, logistic, 0.05, 20, work);
    for (i = 0; i < N; i++) {
        T_CLOSE(u[i], 0.231969, 5e-7);
        T_CLOSE(u[i], 1 / (1 + 9 * exp(-1.0)), 1e-7);
    }
    for (i = 0; i < N; i++) u[i] = 1 + 0.5 * cos(3 * SOLVERS_PI * (i + 0.5) / N);
    fisher_run(u, N, e, none, 0.05, 10, work);
    for (i = 0; i < N; i++)
        T_CLOSE(u[i], 1 + 0.5 * exp(-0.01 * 9 * SOLVERS_PI * SOLVERS_PI * 0.5) * cos(3 * SOLVERS_PI * (i + 0.5) / N),
                1e-12);
    for (s = 0; s < 3; s++) {
        const double dt = s == 0 ? 0.05 : s == 1 ? 0.025 : 0.003125;
        fisher_matrix(e, N, 0.05 * dt / 2, work);
        for (i = 0; i < N; i++) v[s][i] = 0.3 + 0.2 * cos(2 * SOLVERS_PI * (i + 0.5) / N);
        fisher_run(v[s], N, e, strong, dt, (int)(0.5 / dt + 0.5), work);
    }
    for (s = 0; s < 2; s++)
        for (error[s] = 0, i = 0; i < N; i++) error[s] = fmax(error[s], fabs(v[s][i] - v[2][i]));
    T_CLOSE(error[0] / error[1], 4, 0.5);
    T_PROOF("geometry 4", "solver checks: logistic growth u' = u(1-u), u(0) = .1 gives u(1) = .231969");
}

/* J. Cole, E. Hopf: u = -2 nu phi_x / phi with phi = 1 + a exp(-nu k^2 t) cos(k x), a solution of the heat equation */
static void test_burgers(void)
{
    enum { N = 64 };
    const double nu = 0.02, a = 0.6, k = 2 * SOLVERS_PI;
    double u[N];
    int i;
    for (i = 0; i < N; i++) u[i] = 2 * nu * a * k * sin(k * i / N) / (1 + a * cos(k * i / N));
    T_TRUE(burgers_run(u, N, nu, 0.5, 200));
    for (i = 0; i < N; i++) {
        const double e = a * exp(-nu * k * k * 0.5);
        T_CLOSE(u[i], 2 * nu * e * k * sin(k * i / N) / (1 + e * cos(k * i / N)), 1e-8);
    }
}

/* One wave in each direction decays and does not move; the forced flow grows to sin(4 y) / (16 nu); without viscosity
 * the sum of squares stays. */
static void test_vorticity(void)
{
    enum { N = 32 };
    static double w[N * N];
    double before = 0, after = 0, moved = 0, start[4];
    int i;
    for (i = 0; i < N * N; i++) w[i] = sin(2 * SOLVERS_PI * (i % N) / N) * cos(2 * SOLVERS_PI * (i / N) / N);
    T_TRUE(vorticity_run(w, N, 0.1, 0, 1, 20));
    for (i = 0; i < N * N; i++)
        T_CLOSE(w[i], exp(-0.2) * sin(2 * SOLVERS_PI * (i % N) / N) * cos(2 * SOLVERS_PI * (i / N) / N), 1e-12);
    memset(w, 0, sizeof w);
    T_TRUE(vorticity_run(w, N, 0.05, 1, 2, 400));
    for (i = 0; i < N * N; i++)
        T_CLOSE(w[i], sin(8 * SOLVERS_PI * (i / N) / N) / 0.8 * (1 - exp(-1.6)), 1e-8);
    for (i = 0; i < N * N; i++) {
        const double x = 2 * SOLVERS_PI * (i % N) / N, y = 2 * SOLVERS_PI * (i / N) / N;
        w[i] = sin(x) + cos(2 * y) + 0.5 * sin(3 * x + y) - 0.3 * cos(2 * x - 3 * y);
        before += w[i] * w[i];
        if (i < 4) start[i] = w[i];
    }
    T_TRUE(vorticity_run(w, N, 0, 0, 0.5, 100));
    for (i = 0; i < N * N; i++) after += w[i] * w[i];
    T_CLOSE(after / before, 1, 1e-8);
    for (i = 0; i < 4; i++) moved = fmax(moved, fabs(w[i] - start[i]));
    T_TRUE(moved > 0.01);
}

int main(void)
{
    T_RUN(test_darcy);
    T_RUN(test_heat);
    T_RUN(test_fisher);
    T_RUN(test_burgers);
    T_RUN(test_vorticity);
    return t_done();
}
