/* tests/gnn/operator/solvers.c - the solvers of examples/solvers.h against solutions in closed form */
#define T_GNN
#include "t.h"
#include "../../../examples/solvers.h"

/* k = 1 on a strip: x (1 - x) / 2, at most 1/8; two layers of k, and the residual of a square with random k */
static void test_darcy(void)
{
    static double k[31 * 31], u[31 * 31], y[31 * 31], work[3 * 31 * 31];
    double most = 0, sum = 0;
    int i;
    for (i = 0; i < 31; i++) k[i] = 1;
    T_TRUE(darcy_solve(k, 1, 31, 1e-12, u, work) > 0);
    for (i = 0; i < 31; i++) {
        const double x = (i + 1) / 32.0;
        T_CLOSE(u[i], x * (1 - x) / 2, 1e-12);
        most = fmax(most, u[i]);
    }
    T_CLOSE(most, 0.125, 1e-12);
    for (i = 0; i < 31; i++) k[i] = 4;
    T_TRUE(darcy_solve(k, 1, 31, 1e-12, u, work) > 0);
    T_CLOSE(u[15], 0.125 / 4, 1e-12);
    for (i = 0; i < 31 * 31; i++) k[i] = t_rand_below(2) ? 12 : 3;
    T_TRUE(darcy_solve(k, 31, 31, 1e-8, u, work) > 0);
    darcy_times(y, u, k, 31, 31);
    for (i = 0; i < 31 * 31; i++) sum += (y[i] - 1) * (y[i] - 1);
    T_CLOSE(sqrt(sum / (31 * 31)), 0, 1e-7);
    for (i = 0; i < 31 * 31; i++) T_TRUE(u[i] > 0);
    T_PROOF("geometry 3", "data: Darcy k = 1 on the strip gives x(1-x)/2 with maximum .125; CG residual");
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
    T_RUN(test_burgers);
    T_RUN(test_vorticity);
    return t_done();
}
