/* bench/gnn/harmonics.c - spherical harmonics of many vectors: rows of numbers that are written once
 *
 * The rival is the loop that one would write: a vector at a time, its direction, the recursions with their factors in
 * tables, each number stored where it belongs, one thread. The limit is writing: "fill" sets the same rows with memset
 * on all threads, in turns with the others. e3nn (Python) and sphericart are not part of this run. */
#include "../bench.h"
#include "tinygnn.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BH_MOST = TGNN_L_MAX + 1 };

typedef struct bh {
    tiny_ctx *ctx;
    int form;                               /* 0: values, 1: with slopes, 2: forces, 3: the loop, 4: fill */
    tgnn_sph_harm_params p;
    tiny_tensor x, y, dy, dx;
    float a[BH_MOST][BH_MOST], b[BH_MOST][BH_MOST], start[BH_MOST];
} bh;

static void bh_loop(const bh *h)
{
    const int l_max = h->p.l_max, count = (l_max + 1) * (l_max + 1);
    tiny_idx i;
    for (i = 0; i < h->x.dim[0]; i++) {
        const float *v = (const float *)h->x.data + 3 * i;
        float *to = (float *)h->y.data + i * count, c = 1, s = 0;
        const float length = sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), by = length > 0 ? 1 / length : 0;
        const float x = v[0] * by, y = v[1] * by, z = v[2] * by;
        int l, m;
        for (m = 0; m <= l_max; m++) {
            float q0 = 0, q1 = h->start[m];
            if (m) {
                const float old = c, f = m == 1 ? 1.41421356f : 1;
                c = f * (c * z - s * x);
                s = f * (old * x + s * z);
            }
            for (l = m;; l++) {
                to[l * l + l + m] = q1 * c;
                if (m) to[l * l + l - m] = q1 * s;
                if (l == l_max) break;
                {
                    const float q = h->a[l + 1][m] * (y * q1) - h->b[l + 1][m] * q0;
                    q0 = q1;
                    q1 = q;
                }
            }
        }
    }
}

static void bh_fill(tiny_team *team, void *arg)
{
    const bh *h = (const bh *)arg;
    tiny_idx i, i1;
    while (tiny_take(team, h->y.dim[0], 4096, &i, &i1))
        memset((float *)h->y.data + i * h->y.dim[1], 0, (size_t)((i1 - i) * h->y.dim[1]) * sizeof(float));
}

static void bh_run(void *arg)
{
    bh *h = (bh *)arg;
    switch (h->form) {
    case 0: b_must(h->ctx, tgnn_sph_harm(h->ctx, &h->x, &h->p, &h->y)); break;
    case 1: b_must(h->ctx, tgnn_sph_harm_slopes(h->ctx, &h->x, &h->p, &h->y, &h->dy)); break;
    case 2: b_must(h->ctx, tgnn_sph_harm_back(h->ctx, &h->x, &h->y, &h->p, &h->dx)); break;
    case 3: bh_loop(h); break;
    default: b_must(h->ctx, tiny_parallel_loose(h->ctx, 0, 0, 0, bh_fill, h)); break;
    }
}

static void bh_make(bh *h, tiny_ctx *ctx, int form, int l_max, tiny_idx n, float *x, float *y, float *dy, float *dx)
{
    const int count = tgnn_sph_harm_count(l_max);
    int l, m;
    memset(h, 0, sizeof *h);
    h->ctx = ctx;
    h->form = form;
    h->p.l_max = l_max;
    h->x = tiny_tensor_2d(x, TINY_F32, n, 3);
    h->y = tiny_tensor_2d(y, TINY_F32, n, count);
    h->dy = tiny_tensor_3d(dy, TINY_F32, n, 3, count);
    h->dx = tiny_tensor_2d(dx, TINY_F32, n, 3);
    h->start[0] = 1;
    for (m = 1; m <= l_max; m++) h->start[m] = h->start[m - 1] * (float)sqrt((2.0 * m + 1) / (2.0 * m));
    for (l = 1; l <= l_max; l++)
        for (m = 0; m < l; m++) {
            const double a = sqrt((4.0 * l * l - 1) / ((double)l * l - (double)m * m)), k = l - 1;
            h->a[l][m] = (float)a;
            h->b[l][m] = m < l - 1 ? (float)(a * sqrt((k * k - (double)m * m) / (4 * k * k - 1))) : 0;
        }
}

static void bh_degree(tiny_ctx *one, tiny_ctx *all, int l_max, tiny_idx n, double *loop_over_ours)
{
    static const char *const what[6] = { "sph_harm",      "sph_harm", "a loop in C", "fill the rows",
                                         "with slopes", "forces" };
    static const int form[6] = { 0, 0, 3, 4, 1, 2 };
    const int count = tgnn_sph_harm_count(l_max);
    float *x = (float *)b_alloc((size_t)n * 12), *y = (float *)b_alloc((size_t)(n * count) * 4),
          *dx = (float *)b_alloc((size_t)n * 12), *dy = (float *)b_alloc((size_t)(n * count) * 12);
    tiny_rng rng = tiny_rng_make(1, 1);
    static bh h[6];
    b_row rows[6];
    char title[64];
    int i;
    tiny_rng_fill_normal(&rng, x, (size_t)n * 3);
    memset(rows, 0, sizeof rows);
    for (i = 0; i < 6; i++) {
        tiny_ctx *ctx = i == 0 || i == 2 ? one : all;
        const int f = form[i];
        bh_make(&h[i], ctx, f, l_max, n, x, y, dy, dx);
        rows[i].what = what[i];
        rows[i].target = f == 3 ? "plain C" : f == 4 ? "memset" : tiny_target_name(tiny_ctx_target(ctx));
        rows[i].threads = ctx == one ? 1 : b_threads;
        rows[i].limit = f == 3 ? B_NONE : B_COPY;
        rows[i].flops = f == 4 ? 0 : (double)n * (20 + (f == 0 || f == 3 ? 3.5 : 20.0) * count);
        rows[i].bytes = (double)n * (f == 4 ? 4.0 * count : f == 1 ? 12 + 16.0 * count : 12 + 4.0 * count);
        rows[i].run = bh_run;
        rows[i].arg = &h[i];
        b_shape(&rows[i], "%td x %d", n, count);
    }
    (void)snprintf(title, sizeof title, "Spherical harmonics to degree %d", l_max);
    b_contest(title, rows, 6);
    *loop_over_ours = rows[2].median_ns / rows[0].median_ns;
    b_note("%.2f ns a vector on one thread, the loop %.2f; %.0f %% of the rate of memset on all threads",
           rows[0].median_ns / (double)n, rows[2].median_ns / (double)n, 100 * rows[3].median_ns / rows[1].median_ns);
    b_free(x);
    b_free(y);
    b_free(dx);
    b_free(dy);
}

void bench_harmonics(void)
{
    static const int degree[] = { 2, 4, 6, 12 };
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    double ratio[4];
    int i;
    for (i = 0; i < 4; i++) bh_degree(one, all, degree[i], b_quick ? 20000 : i == 3 ? 200000 : 1000000, &ratio[i]);
    b_verdict("the loop in C over sph_harm at degree 6, one thread", ratio[2], ">", 2.0);
    b_headline("so3", "harmonics 5-20x over e3nn on a CPU",
               "a million vectors (200 000 at degree 12), one thread; e3nn was not run, the rival is a loop in C",
               "a loop in C / ours %.1f at degree 2, %.1f at 4, %.1f at 6, %.1f at 12", ratio[0], ratio[1], ratio[2],
               ratio[3]);
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
