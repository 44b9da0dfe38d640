/* bench/gnn/product.c - products of features: the table of "The Price of Freedom", the full product of many channels,
 * and the convolution over edges
 *
 * The table has one channel and 10 000 samples, results up to degree 2 L (11 from L = 6 on). Its kinds compute
 * different things: so each time stands also divided by the number of results, as in the paper: paths for
 * Clebsch-Gordan, degrees for the others. The rival of the full product is the loop that one would write: for each
 * number of C that is not 0, all channels, which stand next to each other. The rival of the convolution is the same
 * product in three steps: rows of x gathered for each edge, products stored, sums of rows. e3nn (Python) is not part of
 * this run: bench/peers/products.py. */
#include "../bench.h"
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

enum { BP_KINDS = 7 };

typedef struct bp {
    tiny_ctx *ctx;
    int form;                               /* 0: product, 1: the loop, 2: conv, 3: in three steps, 4: paths alone */
    tgnn_product *p;
    tgnn_so3 *so3;
    int l;
    tiny_tensor x, y, w, out, offset, col, edge_x, edge_out;
} bp;

static void bp_loop(const bp *b)
{
    const tiny_idx c_all = b->x.dim[1], d = (b->l + 1) * (b->l + 1);
    tiny_idx z, c;
    int l1, l2, l3;
    size_t n, e;
    for (z = 0; z < b->x.dim[0]; z++) {
        const float *x = (const float *)b->x.data + z * d * c_all, *y = (const float *)b->y.data + z * d * c_all;
        float *out = (float *)b->out.data + z * d * c_all;
        memset(out, 0, (size_t)(d * c_all) * sizeof *out);
        for (l1 = 0; l1 <= b->l; l1++)
            for (l2 = 0; l2 <= b->l; l2++)
                for (l3 = 0; l3 <= b->l; l3++) {
                    const tgnn_coupling *list = tgnn_so3_couplings(b->so3, l1, l2, l3, &n);
                    for (e = 0; e < n; e++) {
                        const float v = (float)list[e].value;
                        const float *xi = x + (l1 * l1 + list[e].i) * c_all, *yj = y + (l2 * l2 + list[e].j) * c_all;
                        float *ok = out + (l3 * l3 + list[e].k) * c_all;
                        for (c = 0; c < c_all; c++) ok[c] += v * xi[c] * yj[c];
                    }
                }
    }
}

static void bp_run(void *arg)
{
    bp *b = (bp *)arg;
    tiny_spmm_params sum;
    switch (b->form) {
    case 0: b_must(b->ctx, tgnn_product_run(b->ctx, b->p, &b->x, &b->y, NULL, &b->out)); break;
    case 1: bp_loop(b); break;
    case 2:
        b_must(b->ctx, tgnn_paths_conv(b->ctx, b->p, &b->offset, &b->x, &b->col, &b->y, &b->w, &b->out));
        break;
    case 3:
        memset(&sum, 0, sizeof sum);
        b_must(b->ctx, tiny_gather(b->ctx, &b->x, &b->col, &b->edge_x));
        b_must(b->ctx, tgnn_paths_run(b->ctx, b->p, &b->edge_x, &b->y, &b->w, &b->edge_out));
        b_must(b->ctx, tiny_spmm(b->ctx, &b->offset, &b->edge_out, NULL, NULL, NULL, &sum, &b->out));
        break;
    default: b_must(b->ctx, tgnn_paths_run(b->ctx, b->p, &b->edge_x, &b->y, &b->w, &b->edge_out)); break;
    }
}

/* ---- the paper's table */

typedef struct bp_table { double ms[BP_KINDS], each[BP_KINDS]; } bp_table;

static void bp_degree(tiny_ctx *ctx, int l, tiny_idx n, bp_table *t)
{
    static const int kind[BP_KINDS] = { TGNN_PRODUCT_CG_DENSE, TGNN_PRODUCT_CG_SPARSE, TGNN_PRODUCT_GAUNT_LIST,
                                        TGNN_PRODUCT_GAUNT_GRID, TGNN_PRODUCT_GAUNT_FOURIER, TGNN_PRODUCT_VECTOR,
                                        TGNN_PRODUCT_MATRIX };
    static bp b[BP_KINDS];
    const int l3 = 2 * l < 11 ? 2 * l : 11, d = (l + 1) * (l + 1);
    b_row rows[BP_KINDS];
    char title[80];
    int i;
    memset(rows, 0, sizeof rows);
    for (i = 0; i < BP_KINDS; i++) {
        tgnn_product_desc desc;
        memset(&desc, 0, sizeof desc);
        memset(&b[i], 0, sizeof b[i]);
        desc.kind = kind[i];
        desc.l1 = desc.l2 = l;
        desc.l3 = l3;
        if (i < 2) desc.apart = desc.even = 1;
        b_must(ctx, tgnn_product_open(ctx, &desc, &b[i].p));
        b[i].ctx = ctx;
        b[i].x = tiny_tensor_3d(b_alloc((size_t)n * (size_t)d * 4), TINY_F32, n, 1, d);
        b[i].y = tiny_tensor_3d(b_alloc((size_t)n * (size_t)d * 4), TINY_F32, n, 1, d);
        b[i].out = tiny_tensor_3d(b_alloc((size_t)n * (size_t)tgnn_product_dim(b[i].p, TGNN_PRODUCT_OUT) * 4), TINY_F32,
                                  n, 1, tgnn_product_dim(b[i].p, TGNN_PRODUCT_OUT));
        rows[i].what = tgnn_product_kind_name(kind[i]);
        rows[i].target = tiny_target_name(tiny_ctx_target(ctx));
        rows[i].threads = 1;
        rows[i].limit = B_F32;
        rows[i].flops = 2 * (double)n * tgnn_product_operations(b[i].p);
        rows[i].bytes = 4 * (double)n * (double)(2 * d + b[i].out.dim[2]);
        rows[i].run = bp_run;
        rows[i].arg = &b[i];
        b_shape(&rows[i], "%td, L = %d to %d", n, l, l3);
    }
    (void)snprintf(title, sizeof title, "Products of two features of degrees 0 to %d", l);
    b_contest(title, rows, BP_KINDS);
    for (i = 0; i < BP_KINDS; i++) {
        int path[3], paths = 0;
        while (i < 2 && tgnn_product_path(b[i].p, paths, path)) paths++;
        t->ms[i] = rows[i].median_ns * 1e-6;
        t->each[i] = t->ms[i] / (i < 2 ? paths : l3 + 1);
        tgnn_product_close(ctx, b[i].p);
        b_free(b[i].x.data);
        b_free(b[i].y.data);
        b_free(b[i].out.data);
    }
    b_note("ms for each result: dense %.4f, sparse %.4f, list %.4f, grid %.4f, Fourier %.4f, vector %.4f, matrix %.4f",
           t->each[0], t->each[1], t->each[2], t->each[3], t->each[4], t->each[5], t->each[6]);
}

/* ---- 128 channels, against the loop */

static double bp_channels(tiny_ctx *ctx, int l, tiny_idx n)
{
    static bp b[2];
    const int d = (l + 1) * (l + 1), c = 128;
    tgnn_product_desc desc;
    b_row rows[2];
    char title[80];
    int i;
    memset(rows, 0, sizeof rows);
    memset(&desc, 0, sizeof desc);
    desc.l1 = desc.l2 = desc.l3 = l;
    for (i = 0; i < 2; i++) {
        memset(&b[i], 0, sizeof b[i]);
        b[i].ctx = ctx;
        b[i].form = i;
        b[i].l = l;
        b[i].x = tiny_tensor_3d(i ? b[0].x.data : b_alloc((size_t)(n * c * d) * 4), TINY_F32, n, d, c);
        b[i].y = tiny_tensor_3d(i ? b[0].y.data : b_alloc((size_t)(n * c * d) * 4), TINY_F32, n, d, c);
        b[i].out = tiny_tensor_3d(i ? b[0].out.data : b_alloc((size_t)(n * c * d) * 4), TINY_F32, n, d, c);
    }
    b_must(ctx, tgnn_product_open(ctx, &desc, &b[0].p));
    b_must(ctx, tgnn_so3_open(ctx, l, &b[1].so3));
    b[1].x.dim[1] = c;                      /* the loop reads the data itself */
    b[0].x = tiny_tensor_swap(b[0].x, 1, 2);
    b[0].y = tiny_tensor_swap(b[0].y, 1, 2);
    b[0].out = tiny_tensor_swap(b[0].out, 1, 2);
    for (i = 0; i < 2; i++) {
        rows[i].what = i ? "a loop in C" : "product";
        rows[i].target = i ? "plain C" : tiny_target_name(tiny_ctx_target(ctx));
        rows[i].threads = 1;
        rows[i].limit = B_F32;
        rows[i].flops = 2 * (double)(n * c) * tgnn_product_operations(b[0].p);
        rows[i].bytes = 12.0 * (double)(n * c * d);
        rows[i].run = bp_run;
        rows[i].arg = &b[i];
        b_shape(&rows[i], "%td x 128, L = %d", n, l);
    }
    (void)snprintf(title, sizeof title, "Full product of 128 channels, degrees 0 to %d, batch %td", l, n);
    b_contest(title, rows, 2);
    b_note("%.2f us a sample, the loop %.2f", rows[0].median_ns * 1e-3 / (double)n,
           rows[1].median_ns * 1e-3 / (double)n);
    tgnn_product_close(ctx, b[0].p);
    tgnn_so3_close(ctx, b[1].so3);
    b_free(b[0].x.data);
    b_free(b[0].y.data);
    b_free(b[0].out.data);
    return rows[1].median_ns / rows[0].median_ns;
}

/* ---- the convolution: 64 copies of 0e, 1o, 2e; harmonics to degree 2; every path to degree 2, mode UVU */

static double bp_conv(tiny_ctx *ctx, int last, tiny_idx n, tiny_idx degree)
{
    enum { MUL = 64 };
    static const int kinds[15][3] = { { 0, 0, 0 }, { 0, 1, 1 }, { 0, 2, 2 }, { 1, 0, 1 }, { 1, 1, 0 }, { 1, 1, 2 },
                                      { 1, 2, 1 }, { 2, 0, 2 }, { 2, 1, 1 }, { 2, 2, 0 }, { 2, 2, 2 } };
    static bp b[3];
    static const char *const what[3] = { "paths_conv", "three steps", "products alone" };
    const tiny_idx m = n * degree;
    tgnn_irrep in[3], harm[3], out[11];
    tgnn_path path[11];
    tgnn_paths_desc d;
    tgnn_product *p;
    int64_t *offset = (int64_t *)b_alloc((size_t)(n + 1) * 8);
    int32_t *col = (int32_t *)b_alloc((size_t)m * 4);
    tiny_rng rng = tiny_rng_make(5, 5);
    tiny_idx dx, dy, dw, dz, i;
    b_row rows[3];
    char title[80];
    int k;
    memset(rows, 0, sizeof rows);
    memset(&d, 0, sizeof d);
    memset(path, 0, sizeof path);
    for (k = 0; k < 3; k++) {
        in[k].mul = MUL;
        harm[k].mul = 1;
        in[k].l = harm[k].l = k;
        in[k].parity = harm[k].parity = k & 1 ? -1 : 1;
    }
    for (k = 0; k < 11; k++) {
        out[k].mul = MUL;
        out[k].l = kinds[k][2];
        out[k].parity = out[k].l & 1 ? -1 : 1;
        path[k].in1 = kinds[k][0];
        path[k].in2 = kinds[k][1];
        path[k].out = k;
        path[k].mode = TGNN_PATH_UVU;
    }
    d.in1 = in;
    d.in2 = harm;
    d.out = out;
    d.n_in1 = d.n_in2 = 3;
    d.n_out = d.n_path = 11;
    d.path = path;
    d.last = last;
    b_must(ctx, tgnn_paths_open(ctx, &d, &p));
    dx = tgnn_product_dim(p, TGNN_PRODUCT_X);
    dy = tgnn_product_dim(p, TGNN_PRODUCT_Y);
    dw = tgnn_product_dim(p, TGNN_PRODUCT_W);
    dz = tgnn_product_dim(p, TGNN_PRODUCT_OUT);
    for (i = 0; i <= n; i++) offset[i] = i * degree;
    for (i = 0; i < m; i++) col[i] = (int32_t)tiny_rng_below(&rng, (uint32_t)n);
    memset(&b[0], 0, sizeof b[0]);
    b[0].ctx = ctx;
    b[0].p = p;
    b[0].x = tiny_tensor_2d(b_alloc((size_t)(n * dx) * 4), TINY_F32, n, dx);
    b[0].y = tiny_tensor_2d(b_alloc((size_t)(m * dy) * 4), TINY_F32, m, dy);
    b[0].w = tiny_tensor_2d(b_alloc((size_t)(m * dw) * 4), TINY_F32, m, dw);
    b[0].out = tiny_tensor_2d(b_alloc((size_t)(n * dz) * 4), TINY_F32, n, dz);
    b[0].edge_x = tiny_tensor_2d(b_alloc((size_t)(m * dx) * 4), TINY_F32, m, dx);
    b[0].edge_out = tiny_tensor_2d(b_alloc((size_t)(m * dz) * 4), TINY_F32, m, dz);
    b[0].offset = tiny_tensor_1d(offset, TINY_I64, n + 1);
    b[0].col = tiny_tensor_1d(col, TINY_I32, m);
    for (k = 0; k < 3; k++) {
        b[k] = b[0];
        b[k].form = k + 2;
        rows[k].what = what[k];
        rows[k].target = tiny_target_name(tiny_ctx_target(ctx));
        rows[k].threads = 1;
        rows[k].limit = B_COPY;
        rows[k].flops = 2 * (double)(m * MUL) * 140.0;
        rows[k].bytes = 4.0 * (double)(m * (dw + dy + (k == 2 ? dx + dz : 0)) + (k < 2 ? n * (dx + dz) : 0));
        rows[k].run = bp_run;
        rows[k].arg = &b[k];
        b_shape(&rows[k], "%td nodes, %td edges", n, m);
    }
    (void)snprintf(title, sizeof title, "Convolution of 64 copies of degrees 0 to 2, %s",
                   last ? "copies last" : "as e3nn");
    b_contest(title, rows, 3);
    b_note("%.2f us an edge, in three steps %.2f", rows[0].median_ns * 1e-3 / (double)m,
           rows[1].median_ns * 1e-3 / (double)m);
    tgnn_product_close(ctx, p);
    b_free(b[0].x.data);
    b_free(b[0].y.data);
    b_free(b[0].w.data);
    b_free(b[0].out.data);
    b_free(b[0].edge_x.data);
    b_free(b[0].edge_out.data);
    b_free(offset);
    b_free(col);
    return rows[1].median_ns / rows[0].median_ns;
}

void bench_product(void)
{
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1);
    bp_table t[8];
    double full[5], conv[2];
    int l;
    for (l = 1; l <= 7; l++) bp_degree(one, l, b_quick ? 2000 : 10000, &t[l]);
    for (l = 1; l <= 4; l++) full[l] = bp_channels(one, l, 1);
    (void)bp_channels(one, 3, 64);
    for (l = 0; l < 2; l++) conv[l] = bp_conv(one, l, b_quick ? 300 : 1000, 16);
    b_verdict("the loop in C over the full product, degree 4, 128 channels", full[4], ">", 5.0);
    b_verdict("three steps over the fused convolution, copies last", conv[1], ">", 3.0);
    b_headline("price-of-freedom",
               "CPU, L = 4: dense 21.0 ms, sparse 33.2, grid 5.1, vector 37.9, matrix 81.7, Fourier 217",
               "batch 10 000, one thread; results to degree 8",
               "dense %.2f ms, sparse %.2f, list %.2f, grid %.2f, vector %.2f, matrix %.2f, Fourier %.2f", t[4].ms[0],
               t[4].ms[1], t[4].ms[2], t[4].ms[3], t[4].ms[5], t[4].ms[6], t[4].ms[4]);
    b_headline("price-of-freedom", "ms for each result: L = 4 dense 0.38, grid 0.57; L = 7 dense 0.78, grid 1.97",
               "batch 10 000, one thread; L = 7 to degree 11",
               "L = 4 dense %.3f, sparse %.3f, grid %.3f; L = 7 dense %.3f, sparse %.3f, grid %.3f", t[4].each[0],
               t[4].each[1], t[4].each[3], t[7].each[0], t[7].each[1], t[7].each[3]);
    tiny_ctx_close(one);
}
