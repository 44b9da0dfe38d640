/* bench/gnn/tdn.c - one edge, 128 channels: the product of all paths by low-rank factors, by the folded matrix, and by
 * the couplings, dense and sparse
 *
 * All four compute the same sum over paths with one y, the harmonics of the edge, for all channels; factors do it up to
 * their error. The paper compares factors with dense couplings. Factors have rank 7 l^2 and are not fitted here, since
 * the time does not depend on their numbers; `build/tdn table` prints errors next to times. */
#include "../bench.h"
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

enum { BT_CHANNELS = 128, BT_FORMS = 4, BT_DEGREES = 6 };

typedef struct bt {
    tiny_ctx *ctx;
    tgnn_product *p;
    tiny_tensor x, y, out;
} bt;

static void bt_run(void *arg)
{
    bt *b = (bt *)arg;
    b_must(b->ctx, tgnn_product_run(b->ctx, b->p, &b->x, &b->y, NULL, &b->out));
}

/* microseconds an edge of each form */
static void bt_degree(tiny_ctx *ctx, int l, int edges, double us[BT_FORMS])
{
    static const int kind[BT_FORMS] = { TGNN_PRODUCT_FOLD, TGNN_PRODUCT_CP, TGNN_PRODUCT_CG_SPARSE,
                                        TGNN_PRODUCT_CG_DENSE };
    static const char *const what[BT_FORMS] = { "fold", "factors, rank 7 l^2", "couplings, sparse",
                                                "couplings, dense" };
    const tiny_idx d = (tiny_idx)(l + 1) * (l + 1);
    const size_t n = (size_t)(edges * BT_CHANNELS * d), bytes = n * sizeof(float);
    float *x = (float *)b_alloc(bytes), *y = (float *)b_alloc((size_t)(edges * d) * sizeof(float)),
          *out = (float *)b_alloc(bytes);
    tiny_rng rng = tiny_rng_make(3, (uint64_t)l);
    tgnn_cp_desc c;
    tgnn_cp *cp;
    b_row rows[BT_FORMS];
    bt b[BT_FORMS];
    char title[100];
    int k;
    tiny_rng_fill_uniform(&rng, x, n, -1, 1);
    tiny_rng_fill_uniform(&rng, y, (size_t)(edges * d), -1, 1);
    memset(rows, 0, sizeof rows);
    memset(&c, 0, sizeof c);
    c.l = l;
    c.rank = tgnn_cp_rank(l, TGNN_CP_SQUARE);
    c.starts = c.sweeps = 1;
    b_must(ctx, tgnn_cp_fit(ctx, &c, &cp));
    for (k = 0; k < BT_FORMS; k++) {
        tgnn_product_desc p;
        memset(&p, 0, sizeof p);
        p.kind = kind[k];
        p.l1 = p.l2 = p.l3 = l;
        p.channels = BT_CHANNELS;
        p.cp = kind[k] == TGNN_PRODUCT_CP ? cp : NULL;
        b[k].ctx = ctx;
        b_must(ctx, tgnn_product_open(ctx, &p, &b[k].p));
        b[k].x = tiny_tensor_swap(tiny_tensor_3d(x, TINY_F32, edges, d, BT_CHANNELS), 1, 2);
        b[k].y = tiny_tensor_3d(y, TINY_F32, edges, 1, d);
        b[k].out = tiny_tensor_swap(tiny_tensor_3d(out, TINY_F32, edges, d, BT_CHANNELS), 1, 2);
        rows[k].what = what[k];
        rows[k].target = tiny_target_name(tiny_ctx_target(ctx));
        rows[k].threads = 1;
        rows[k].limit = B_F32;
        rows[k].flops = 2.0 * (double)edges * BT_CHANNELS * tgnn_product_operations(b[k].p);
        rows[k].bytes = 2.0 * (double)bytes;
        rows[k].run = bt_run;
        rows[k].arg = &b[k];
        b_shape(&rows[k], "%d edges, %d channels", edges, (int)BT_CHANNELS);
    }
    (void)snprintf(title, sizeof title, "Product of all paths, degree %d, one harmonic row for 128 channels", l);
    b_contest(title, rows, BT_FORMS);
    for (k = 0; k < BT_FORMS; k++) {
        us[k] = rows[k].median_ns * 1e-3 / edges;
        tgnn_product_close(ctx, b[k].p);
    }
    b_note("us an edge: fold %.2f, factors %.2f, sparse %.2f, dense %.2f", us[0], us[1], us[2], us[3]);
    tgnn_cp_close(ctx, cp);
    b_free(x);
    b_free(y);
    b_free(out);
}

void bench_tdn(void)
{
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1);
    double us[BT_DEGREES + 1][BT_FORMS];
    int l;
    for (l = 1; l <= BT_DEGREES; l++) bt_degree(one, l, b_quick || l > 3 ? 16 : 64, us[l]);
    b_verdict("dense couplings over factors, degree 4", us[4][3] / us[4][1], ">", 5.0);
    b_verdict("factors over fold, degree 4", us[4][1] / us[4][0], ">", 3.0);
    b_headline("tdn", "product from O(L^6) to O(L^4), against dense couplings", "one edge, 128 channels, one thread",
               "dense over factors %.1f (L = 2), %.1f (4), %.1f (6); sparse over factors %.1f, %.1f, %.1f; factors "
               "over fold %.1f, %.1f, %.1f",
               us[2][3] / us[2][1], us[4][3] / us[4][1], us[6][3] / us[6][1], us[2][2] / us[2][1],
               us[4][2] / us[4][1], us[6][2] / us[6][1], us[2][1] / us[2][0], us[4][1] / us[4][0],
               us[6][1] / us[6][0]);
    tiny_ctx_close(one);
}
