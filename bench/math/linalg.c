/* bench/math/linalg.c - dense linear algebra in double: the fast forms against the plain ones; half of the f32 peak is
 * the limit */
#include "../bench.h"
#include <string.h>

enum { LA = 512 };
typedef struct bg_arg { tiny_ctx *ctx; tiny_tensor a, spd, l, w, v; int which; } bg_arg;

static void bg_run(void *arg)
{
    bg_arg *g = (bg_arg *)arg;
    switch (g->which) {
    case 0: b_must(g->ctx, tiny_cholesky(g->ctx, &g->spd, &g->l)); break;
    case 1: b_must(g->ctx, tiny_tri_inverse(g->ctx, &g->l, NULL, &g->v)); break;
    default: b_must(g->ctx, tiny_eigh(g->ctx, &g->spd, &g->w, &g->v)); break;
    }
}

void bench_linalg(void)
{
    static const char *const what[] = { "cholesky", "triangular inverse", "symmetric eigen" };
    /* leading terms of the plain algorithms */
    static const double flops[] = { LA / 3.0 * LA * LA, LA / 3.0 * LA * LA, 9.0 * LA * LA * LA };
    float *a = (float *)b_alloc(LA * LA * 4), *spd = (float *)b_alloc(LA * LA * 4), *l = (float *)b_alloc(LA * LA * 4),
          *v = (float *)b_alloc(LA * LA * 4), *w = (float *)b_alloc(LA * 4);
    tiny_ctx *fast = b_ctx(TINY_TARGET_AUTO, b_threads), *plain = b_ctx(TINY_TARGET_REFERENCE, 1);
    bg_arg args[6];
    b_row rows[6];
    int i, j;
    for (i = 0; i < LA; i++)
        for (j = 0; j < LA; j++) spd[i * LA + j] = 0.01f * a[i * LA + j];
    for (i = 0; i < LA; i++) {
        for (j = 0; j < i; j++) spd[i * LA + j] = spd[j * LA + i];
        spd[i * LA + i] = 3.0f + (float)i / LA;
    }
    memset(rows, 0, sizeof rows);
    for (i = 0; i < 6; i++) {
        bg_arg *g = &args[i];
        g->ctx = i & 1 ? plain : fast;
        g->which = i / 2;
        g->a = tiny_tensor_2d(a, TINY_F32, LA, LA);
        g->spd = tiny_tensor_2d(spd, TINY_F32, LA, LA);
        g->l = tiny_tensor_2d(l, TINY_F32, LA, LA);
        g->v = tiny_tensor_2d(v, TINY_F32, LA, LA);
        g->w = tiny_tensor_1d(w, TINY_F32, LA);
        rows[i].what = what[i / 2];
        rows[i].target = tiny_target_name(tiny_ctx_target(g->ctx));
        rows[i].threads = i & 1 ? 1 : b_threads;
        rows[i].run = bg_run;
        rows[i].arg = g;
        rows[i].flops = flops[i / 2];
        rows[i].bytes = 8.0 * LA * LA;
        b_shape(&rows[i], "%dx%d", LA, LA);
    }
    b_contest("Dense linear algebra, f32 in and out, double inside", rows, 6);
    tiny_ctx_close(fast);
    tiny_ctx_close(plain);
}
