/* examples/solvers.h - solvers of five equations, in double, that make the data of examples/operator.c and deeponet.c
 *
 * They stand alone: a program may include this file after its header and change what it wants. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SOLVERS_PI 3.14159265358979323846

/* Conjugate gradients for a symmetric system that a function multiplies with: u, which holds a first guess, so that
 * times(u) = right where inside[i] is nonzero (NULL: everywhere), until the residual is `bound` of the right side.
 * work: 3 n. Returns the number of steps, or -1 after `most`. */
typedef void (*solvers_times)(double *y, const double *u, const void *of);

static inline int solvers_cg(solvers_times times, const void *of, const unsigned char *inside, const double *right,
                             int n, double bound, int most, double *u, double *work)
{
    double *r = work, *p = work + n, *q = work + 2 * n, rr = 0, bb = 0, old;
    int i, step;
    times(q, u, of);
    for (i = 0; i < n; i++) {
        const double b = !inside || inside[i] ? right[i] : 0;
        r[i] = p[i] = !inside || inside[i] ? b - q[i] : 0;
        rr += r[i] * r[i];
        bb += b * b;
    }
    for (step = 0; step <= most; step++) {
        double pq = 0, a;
        if (rr <= bound * bound * bb) return step;
        times(q, p, of);
        for (i = 0; i < n; i++) pq += p[i] * q[i];
        a = rr / pq;
        old = rr;
        rr = 0;
        for (i = 0; i < n; i++) {
            u[i] += a * p[i];
            r[i] -= a * q[i];
            rr += r[i] * r[i];
        }
        for (i = 0; i < n; i++) p[i] = r[i] + rr / old * p[i];
    }
    return -1;
}

/* -div(k grad u) = 1 inside a shape on a grid, u = 0 at every point outside it and around the grid; rows x columns
 * points that lie h = 1 / (columns + 1) apart. inside NULL: the whole rectangle. The link of two points has the
 * harmonic mean of their k. One row: a strip that is closed above and below. */
typedef struct darcy_field { const double *k; const unsigned char *inside; int rows, columns; } darcy_field;

static inline void darcy_times(double *y, const double *u, const void *of)
{
    const darcy_field *f = (const darcy_field *)of;
    const int rows = f->rows, columns = f->columns;
    const double *k = f->k;
    int i, j, s;
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) {
            const int at = i * columns + j;
            const int step[4] = { -1, 1, -columns, columns },
                      there[4] = { j > 0, j < columns - 1, i > 0, i < rows - 1 };
            double sum = 0;
            for (s = 0; s < (rows > 1 ? 4 : 2) && (!f->inside || f->inside[at]); s++) {
                const int to = there[s] && (!f->inside || f->inside[at + step[s]]);
                const double ko = to ? k[at + step[s]] : k[at];
                sum += 2 * k[at] * ko / (k[at] + ko) * (u[at] - (to ? u[at + step[s]] : 0));
            }
            y[at] = sum * (columns + 1) * (columns + 1);
        }
}

/* work: 4 rows columns; returns as solvers_cg */
static inline int darcy_solve(const double *k, const unsigned char *inside, int rows, int columns, double bound,
                              double *u, double *work)
{
    const int n = rows * columns;
    darcy_field f;
    int i;
    f.k = k;
    f.inside = inside;
    f.rows = rows;
    f.columns = columns;
    for (i = 0; i < n; i++) {
        u[i] = 0;
        work[i] = 1;
    }
    return solvers_cg(darcy_times, &f, inside, work, n, bound, 40 * (rows + columns) + 100, u, work + n);
}

/* A regular polygon in the middle of n x n points, its corners `radius` of the side away from the centre, one side in
 * the direction `turn`. notch: width of a slit in that side, of the radius; hole: radius of a hole, of the radius. */
static inline void shape_mask(unsigned char *inside, int n, int sides, double radius, double turn, double notch,
                              double hole)
{
    int i, k;
    for (i = 0; i < n * n; i++) {
        const double x = (i % n + 0.5) / n - 0.5, y = (i / n + 0.5) / n - 0.5;
        const double along = x * cos(turn) + y * sin(turn), across = y * cos(turn) - x * sin(turn);
        inside[i] = 1;
        for (k = 0; k < sides; k++) {
            const double t = turn + 2 * SOLVERS_PI * k / sides;
            if (x * cos(t) + y * sin(t) > radius * cos(SOLVERS_PI / sides)) inside[i] = 0;
        }
        if (along > 0.25 * radius && fabs(across) < notch * radius / 2) inside[i] = 0;
        if (x * x + y * y < hole * hole * radius * radius) inside[i] = 0;
    }
}

/* Steady heat in a plate of voxels, div(grad u) = 0: u = 1 on the face before the first layer of axis 0, u = 0 on the
 * face after the last one; all other faces, and those of holes, are insulated. inside[(i n1 + j) n2 + k] */
typedef struct heat_plate { const unsigned char *inside; const int *n; } heat_plate;

static inline void heat_times(double *y, const double *u, const void *of)
{
    const heat_plate *f = (const heat_plate *)of;
    const int *n = f->n;
    int i, j, k, s;
    for (i = 0; i < n[0]; i++)
        for (j = 0; j < n[1]; j++)
            for (k = 0; k < n[2]; k++) {
                const int at = (i * n[1] + j) * n[2] + k;
                const int step[6] = { -n[1] * n[2], n[1] * n[2], -n[2], n[2], -1, 1 };
                const int there[6] = { i > 0, i < n[0] - 1, j > 0, j < n[1] - 1, k > 0, k < n[2] - 1 };
                double sum = 0;
                for (s = 0; s < 6 && f->inside[at]; s++)
                    if (there[s] && f->inside[at + step[s]]) sum += u[at] - u[at + step[s]];
                if (f->inside[at] && (i == 0 || i == n[0] - 1)) sum += 2 * u[at] * (n[0] == 1 ? 2 : 1);
                y[at] = sum;
            }
}

/* work: 4 n0 n1 n2; returns as solvers_cg */
static inline int heat_solve(const unsigned char *inside, const int n[3], double bound, double *u, double *work)
{
    const int all = n[0] * n[1] * n[2];
    heat_plate f;
    int i;
    f.inside = inside;
    f.n = n;
    for (i = 0; i < all; i++) {
        u[i] = 0;
        work[i] = i < n[1] * n[2] ? 2 : 0;
    }
    return solvers_cg(heat_times, &f, inside, work, all, bound, 100 * (n[0] + n[1] + n[2]), u, work + all);
}

/* u_t = diffusion u_xx + c0 + c1 u + ... + c4 u^4 on [0, 1] without flux at the ends, u at the n midpoints. Strang:
 * half a step of diffusion, exact for the n cosines, a step of reaction by Runge-Kutta of order 4, half a step of
 * diffusion. e (n, n) is the half step of diffusion: fisher_matrix (work: 5 n) with factor = diffusion dt / 2.
 * work of the run: n. */
static inline void fisher_matrix(double *e, int n, double factor, double *work)
{
    int i, j, k;
    for (i = 0; i < 4 * n; i++) work[i] = cos(SOLVERS_PI * i / (2.0 * n));
    for (k = 0; k < n; k++) work[4 * n + k] = (k ? 2.0 : 1.0) / n * exp(-factor * SOLVERS_PI * SOLVERS_PI * k * k);
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            double sum = 0;
            for (k = 0; k < n; k++)
                sum += work[4 * n + k] * work[k * (2 * i + 1) % (4 * n)] * work[k * (2 * j + 1) % (4 * n)];
            e[i * n + j] = sum;
        }
}

static inline double fisher_rate(const double *c, double u)
{
    return c[0] + u * (c[1] + u * (c[2] + u * (c[3] + u * c[4])));
}

static inline void fisher_run(double *u, int n, const double *e, const double *c, double dt, int steps, double *work)
{
    int i, j, half, step;
    for (step = 0; step < steps; step++)
        for (half = 0; half < 2; half++) {
            for (i = 0; i < n; i++) {
                double sum = 0;
                for (j = 0; j < n; j++) sum += e[i * n + j] * u[j];
                work[i] = sum;
            }
            memcpy(u, work, (size_t)n * sizeof *u);
            for (i = 0; i < n && !half; i++) {
                const double a = fisher_rate(c, u[i]), b = fisher_rate(c, u[i] + dt / 2 * a),
                             d = fisher_rate(c, u[i] + dt / 2 * b), f = fisher_rate(c, u[i] + dt * d);
                u[i] += dt / 6 * (a + 2 * b + 2 * d + f);
            }
        }
}

/* In place, n a power of two: z_k = sum z_j exp(-+ 2 pi i j k / n), re and im apart, `step` numbers from one to the
 * next; the inverse divides by n. */
static inline void plain_fft(double *re, double *im, int n, int step, int inverse)
{
    int i, j = 0, half, k;
    for (i = 1; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j |= bit;
        if (i < j) {
            const double a = re[i * step], b = im[i * step];
            re[i * step] = re[j * step];
            im[i * step] = im[j * step];
            re[j * step] = a;
            im[j * step] = b;
        }
    }
    for (half = 1; half < n; half *= 2)
        for (k = 0; k < half; k++) {
            const double c = cos(SOLVERS_PI * k / half), s = (inverse ? 1 : -1) * sin(SOLVERS_PI * k / half);
            for (i = k; i < n; i += 2 * half) {
                double *ar = re + i * step, *ai = im + i * step, *br = re + (i + half) * step,
                       *bi = im + (i + half) * step;
                const double tr = *br * c - *bi * s, ti = *br * s + *bi * c;
                *br = *ar - tr;
                *bi = *ai - ti;
                *ar += tr;
                *ai += ti;
            }
        }
    for (i = 0; inverse && i < n; i++) {
        re[i * step] /= n;
        im[i * step] /= n;
    }
}

static inline int wave_number(int i, int n) { return 2 * i > n ? i - n : i; }

/* u_t + u u_x = nu u_xx on the periodic interval of length 1, n points (a power of two), from u to time t in `steps`
 * steps: pseudo-spectral, a third of the frequencies cut against aliasing, Runge-Kutta of order 4 for the product and
 * exp(-nu k^2 t) for the diffusion. 0: no memory. */
static inline void burgers_slope(double *re, double *im, const double *ur, const double *ui, int n, double *work)
{
    double *a = work, *b = work + n;
    int i;
    memcpy(a, ur, (size_t)n * sizeof *a);
    memcpy(b, ui, (size_t)n * sizeof *b);
    plain_fft(a, b, n, 1, 1);
    for (i = 0; i < n; i++) {
        a[i] *= a[i];
        b[i] = 0;
    }
    plain_fft(a, b, n, 1, 0);
    for (i = 0; i < n; i++) {               /* -(u^2)_x / 2 */
        const double k = 2 * SOLVERS_PI * wave_number(i, n);
        const int kept = 3 * abs(wave_number(i, n)) < n;
        re[i] = kept ? 0.5 * k * b[i] : 0;
        im[i] = kept ? -0.5 * k * a[i] : 0;
    }
}

static inline int burgers_run(double *u, int n, double nu, double t, int steps)
{
    static const double part[4] = { 0.5, 0.5, 1, 0 }, weight[4] = { 1, 2, 2, 1 };
    const double dt = t / steps;
    double *z = (double *)calloc((size_t)n * 11, sizeof *z), *im = z + n, *half = z + 2 * n, *slope = z + 3 * n,
           *sum = z + 5 * n, *at = z + 7 * n, *work = z + 9 * n;
    int i, step, s;
    if (!z) return 0;
    memcpy(z, u, (size_t)n * sizeof *z);
    plain_fft(z, im, n, 1, 0);
    for (i = 0; i < n; i++) {
        const double k = 2 * SOLVERS_PI * wave_number(i, n);
        half[i] = exp(-nu * k * k * dt / 2);
        if (2 * i == n) z[i] = im[i] = 0;
    }
    for (step = 0; step < steps; step++) {
        memset(sum, 0, 2 * (size_t)n * sizeof *sum);
        memcpy(at, z, 2 * (size_t)n * sizeof *at);
        for (s = 0; s < 4; s++) {
            burgers_slope(slope, slope + n, at, at + n, n, work);
            for (i = 0; i < 2 * n; i++) {   /* everything as seen from the end of the step */
                const double e = half[i % n], to_end = s == 0 ? e * e : s == 3 ? 1 : e;
                sum[i] += weight[s] * to_end * slope[i];
                at[i] = s < 2    ? e * z[i] + part[s] * dt * (s == 0 ? e : 1) * slope[i]
                        : s == 2 ? e * e * z[i] + dt * e * slope[i]
                                 : 0;
            }
        }
        for (i = 0; i < 2 * n; i++) z[i] = half[i % n] * half[i % n] * z[i] + dt / 6 * sum[i];
    }
    plain_fft(z, im, n, 1, 1);
    memcpy(u, z, (size_t)n * sizeof *u);
    free(z);
    return 1;
}

/* w_t + u . grad w = nu laplace w + force * sin(4 y) on the periodic square of side 2 pi, n x n points (a power of
 * two), w[row][column], y counts rows; u from the stream function psi, laplace psi = -w. Pseudo-spectral as above. */
static inline void plain_fft2(double *re, double *im, int n, int inverse)
{
    int i;
    for (i = 0; i < n; i++) plain_fft(re + i * n, im + i * n, n, 1, inverse);
    for (i = 0; i < n; i++) plain_fft(re + i, im + i, n, n, inverse);
}

static inline void vorticity_slope(double *re, double *im, const double *wr, const double *wi, int n, double force,
                            double *work)
{
    const int m = n * n;
    double *f[4], *g[4];
    int i, k;
    for (k = 0; k < 4; k++) {
        f[k] = work + 2 * k * m;
        g[k] = f[k] + m;
    }
    for (i = 0; i < m; i++) {               /* u = psi_y, v = -psi_x, w_x, w_y */
        const double x = wave_number(i % n, n), y = wave_number(i / n, n), k2 = x * x + y * y;
        const double pr = k2 > 0 ? wr[i] / k2 : 0, pi = k2 > 0 ? wi[i] / k2 : 0;
        const double kx = 2 * (i % n) == n ? 0 : x, ky = 2 * (i / n) == n ? 0 : y;
        f[0][i] = -ky * pi;
        g[0][i] = ky * pr;
        f[1][i] = kx * pi;
        g[1][i] = -kx * pr;
        f[2][i] = -kx * wi[i];
        g[2][i] = kx * wr[i];
        f[3][i] = -ky * wi[i];
        g[3][i] = ky * wr[i];
    }
    for (k = 0; k < 4; k++) plain_fft2(f[k], g[k], n, 1);
    for (i = 0; i < m; i++) {
        re[i] = -(f[0][i] * f[2][i] + f[1][i] * f[3][i]) + force * sin(4 * 2 * SOLVERS_PI * (i / n) / n);
        im[i] = 0;
    }
    plain_fft2(re, im, n, 0);
    for (i = 0; i < m; i++)
        if (3 * abs(wave_number(i % n, n)) >= n || 3 * abs(wave_number(i / n, n)) >= n) re[i] = im[i] = 0;
}

static inline int vorticity_run(double *w, int n, double nu, double force, double t, int steps)
{
    static const double weight[4] = { 1, 2, 2, 1 };
    const int m = n * n;
    const double dt = t / steps;
    double *z = (double *)calloc((size_t)m * 17, sizeof *z), *half = z + 2 * m, *slope = z + 3 * m, *sum = z + 5 * m,
           *at = z + 7 * m, *work = z + 9 * m;
    int i, step, s;
    if (!z) return 0;
    memcpy(z, w, (size_t)m * sizeof *z);
    plain_fft2(z, z + m, n, 0);
    for (i = 0; i < m; i++) {
        const double x = wave_number(i % n, n), y = wave_number(i / n, n);
        half[i] = exp(-nu * (x * x + y * y) * dt / 2);
    }
    for (step = 0; step < steps; step++) {
        memset(sum, 0, 2 * (size_t)m * sizeof *sum);
        memcpy(at, z, 2 * (size_t)m * sizeof *at);
        for (s = 0; s < 4; s++) {
            vorticity_slope(slope, slope + m, at, at + m, n, force, work);
            for (i = 0; i < 2 * m; i++) {
                const double e = half[i % m], to_end = s == 0 ? e * e : s == 3 ? 1 : e;
                sum[i] += weight[s] * to_end * slope[i];
                at[i] = s == 0   ? e * (z[i] + dt / 2 * slope[i])
                        : s == 1 ? e * z[i] + dt / 2 * slope[i]
                        : s == 2 ? e * e * z[i] + dt * e * slope[i]
                                 : 0;
            }
        }
        for (i = 0; i < 2 * m; i++) z[i] = half[i % m] * half[i % m] * z[i] + dt / 6 * sum[i];
    }
    plain_fft2(z, z + m, n, 1);
    memcpy(w, z, (size_t)m * sizeof *w);
    free(z);
    return 1;
}
