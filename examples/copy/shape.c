/* examples/copy/shape.c - numbers that describe a set of points and stay the same when the points are turned
 *
 *     cc -O2 examples/copy/shape.c -I. -o shape && ./shape 7
 *
 * Each point gives its spherical harmonics; their sum over the points turns with the points, each degree within itself.
 * So the length of each degree's part does not change. The points are the corners of a cube, without the last one;
 * they are turned by a random rotation of that seed. */
#define TINYGNN_WITH_EQUIVARIANT
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 7, L = 4, NUMBERS = (L + 1) * (L + 1) };

/* the squared length of each degree's part of the sum over the points */
static tiny_status lengths(tiny_ctx *ctx, float *points, double *square)
{
    float y[POINTS * NUMBERS];
    const tiny_tensor tx = tiny_tensor_2d(points, TINY_F32, POINTS, 3),
                      ty = tiny_tensor_2d(y, TINY_F32, POINTS, NUMBERS);
    tgnn_sph_harm_params p = { 0 };
    int l, k, i;
    tiny_status st;
    p.l_max = L;
    st = tgnn_sph_harm(ctx, &tx, &p, &ty);
    for (l = 0; !st && l <= L; l++) {
        square[l] = 0;
        for (k = l * l; k < (l + 1) * (l + 1); k++) {
            double sum = 0;
            for (i = 0; i < POINTS; i++) sum += (double)y[i * NUMBERS + k];
            square[l] += sum * sum;
        }
    }
    return st;
}

int main(int argc, char **argv)
{
    float points[3 * POINTS], turned[3 * POINTS];
    double r[9], before[L + 1], after[L + 1];
    tiny_ctx *ctx = NULL;
    tiny_status st;
    int i, j;
    if (argc != 2) return fputs("shape SEED\n", stderr), 2;
    for (i = 0; i < POINTS; i++)
        for (j = 0; j < 3; j++) points[3 * i + j] = i >> j & 1 ? 1.0f : -1.0f;
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = tgnn_rotation_random(ctx, strtoull(argv[1], NULL, 10), 0, r);
    for (i = 0; !st && i < POINTS; i++)
        for (j = 0; j < 3; j++)
            turned[3 * i + j] = (float)(r[3 * j] * (double)points[3 * i] + r[3 * j + 1] * (double)points[3 * i + 1] +
                                        r[3 * j + 2] * (double)points[3 * i + 2]);
    if (!st) st = lengths(ctx, points, before);
    if (!st) st = lengths(ctx, turned, after);
    if (st) fprintf(stderr, "shape: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    for (i = 0; !st && i <= L; i++) printf("degree %d  %8.3f  turned %8.3f\n", i, before[i], after[i]);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
