/* bench/math/train.c - training steps through the tape: an MLP against the same step written out in plain loops, and a
 * small convolution net. One call is one step of 100 samples. */
#include "../bench.h"
#include <math.h>
#include <string.h>

#ifdef TINY_NO_TRAIN
void bench_train(void) { }
#else

enum { BT_B = 100, BT_IN = 32, BT_H = 128, BT_OUT = 10 };

typedef struct bt_net {
    tiny_ctx *ctx;
    tiny_tape *tape;
    tiny_optim *optim;
    tiny_param p[10];
    size_t n;
    tiny_tensor x, label;
    int conv;
} bt_net;

static void bt_add(bt_net *w, int rank, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d, tiny_rng *rng)
{
    tiny_idx dim[4];
    tiny_param *p = &w->p[w->n++];
    size_t n = (size_t)(a * (rank > 1 ? b : 1) * (rank > 2 ? c * d : 1));
    dim[0] = a; dim[1] = b; dim[2] = c; dim[3] = d;
    p->value = tiny_tensor_nd(b_alloc(n * sizeof(float)), TINY_F32, rank, dim);
    p->grad = tiny_tensor_nd(b_alloc(n * sizeof(float)), TINY_F32, rank, dim);
    if (rank > 1) (void)tiny_init_he(w->ctx, rng, &p->value, 0);
    else (void)tiny_init_constant(w->ctx, &p->value, 0.0);
}

static tiny_tensor bt_conv(bt_net *w, const tiny_tensor *x, int first)
{
    tiny_conv2d_params same;
    tiny_patch_params half;
    tiny_tensor h;
    memset(&same, 0, sizeof same);
    memset(&half, 0, sizeof half);
    same.pad[0] = same.pad[1] = same.pad[2] = same.pad[3] = 1;
    same.relu = 1;
    half.size[0] = half.size[1] = 2;
    h = tiny_tape_call(w->tape, TINY_OP_CONV2D, x, &w->p[first].value, &w->p[first + 1].value, NULL, &same);
    return tiny_tape_call(w->tape, TINY_OP_MAX_POOL, &h, NULL, NULL, NULL, &half);
}

static void bt_step(void *arg)
{
    bt_net *w = (bt_net *)arg;
    const tiny_tape_mark mark = tiny_tape_now(w->tape);
    tiny_tensor h = w->x;
    int k = 0;
    if (w->conv) {
        tiny_idx dim[2] = { BT_B, 512 };
        h = bt_conv(w, &h, 0);
        h = bt_conv(w, &h, 2);
        h = tiny_tape_reshape(w->tape, &h, 2, dim);
        k = 4;
    }
    for (; k + 2 < (int)w->n; k += 2)
        h = tiny_tape_linear(w->tape, &h, &w->p[k].value, &w->p[k + 1].value, TINY_ACT_RELU);
    h = tiny_tape_linear(w->tape, &h, &w->p[k].value, &w->p[k + 1].value, TINY_ACT_NONE);
    h = tiny_tape_cross_entropy(w->tape, &h, &w->label, 0.0);
    tiny_tape_zero(w->tape);
    b_must(w->ctx, tiny_tape_backward(w->tape, &h, NULL));
    b_must(w->ctx, tiny_optim_step(w->optim, 1.0));
    tiny_tape_release(w->tape, mark);
}

/* ---- the same step of the MLP in plain loops, weights (out, in) */

typedef struct bt_plain {
    float *w[3], *b[3], *gw[3], *gb[3], *m[6], *v[6], *a[4], *d[4];
    const int32_t *label;
    int steps;
} bt_plain;

static const int bt_size[4] = { BT_IN, BT_H, BT_H, BT_OUT };

static void bt_adam(float *w, const float *g, float *m, float *v, int n, float rate, float root)
{
    int i;
    for (i = 0; i < n; i++) {
        m[i] += 0.1f * (g[i] - m[i]);
        v[i] += 0.001f * (g[i] * g[i] - v[i]);
        w[i] -= rate * m[i] / (sqrtf(v[i]) * root + 1e-8f);
    }
}

static void bt_loops(void *arg)
{
    bt_plain *q = (bt_plain *)arg;
    float rate, root;
    int l, s, i, j;
    for (l = 0; l < 3; l++)
        for (s = 0; s < BT_B; s++)
            for (i = 0; i < bt_size[l + 1]; i++) {
                const float *w = q->w[l] + i * bt_size[l], *x = q->a[l] + s * bt_size[l];
                float sum[8] = { 0, 0, 0, 0, 0, 0, 0, 0 }, y;
                for (j = 0; j < bt_size[l]; j += 8) {       /* eight sums, which compilers make a vector of */
                    int k;
                    for (k = 0; k < 8; k++) sum[k] += w[j + k] * x[j + k];
                }
                y = q->b[l][i] + ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
                q->a[l + 1][s * bt_size[l + 1] + i] = l < 2 && y < 0.0f ? 0.0f : y;
            }
    for (s = 0; s < BT_B; s++) {
        float *y = q->a[3] + s * BT_OUT, *d = q->d[3] + s * BT_OUT, top = y[0], sum = 0.0f;
        for (i = 1; i < BT_OUT; i++) if (y[i] > top) top = y[i];
        for (i = 0; i < BT_OUT; i++) sum += d[i] = expf(y[i] - top);
        for (i = 0; i < BT_OUT; i++) d[i] = (d[i] / sum - (i == q->label[s] ? 1.0f : 0.0f)) / BT_B;
    }
    for (l = 2; l >= 0; l--) {
        const int n_in = bt_size[l], n_out = bt_size[l + 1];
        memset(q->gw[l], 0, (size_t)(n_in * n_out) * sizeof(float));
        memset(q->gb[l], 0, (size_t)n_out * sizeof(float));
        memset(q->d[l], 0, (size_t)(BT_B * n_in) * sizeof(float));
        for (s = 0; s < BT_B; s++)
            for (i = 0; i < n_out; i++) {
                const float g = q->d[l + 1][s * n_out + i], *x = q->a[l] + s * n_in, *w = q->w[l] + i * n_in;
                float *gw = q->gw[l] + i * n_in, *d = q->d[l] + s * n_in;
                if (g == 0.0f) continue;
                q->gb[l][i] += g;
                for (j = 0; j < n_in; j++) gw[j] += g * x[j];
                if (l) for (j = 0; j < n_in; j++) d[j] += g * w[j];
            }
        for (i = 0; l && i < BT_B * n_in; i++) if (q->a[l][i] <= 0.0f) q->d[l][i] = 0.0f;
    }
    q->steps++;
    rate = (float)(1e-6 / (1.0 - pow(0.9, q->steps)));
    root = (float)(1.0 / sqrt(1.0 - pow(0.999, q->steps)));
    for (l = 0; l < 3; l++) {
        bt_adam(q->w[l], q->gw[l], q->m[l], q->v[l], bt_size[l] * bt_size[l + 1], rate, root);
        bt_adam(q->b[l], q->gb[l], q->m[3 + l], q->v[3 + l], bt_size[l + 1], rate, root);
    }
}

static void bt_open(bt_net *w, int threads, int conv)
{
    tiny_tape_desc t;
    tiny_optim_desc d;
    tiny_rng rng = tiny_rng_make(5, 0);
    int32_t *label = (int32_t *)b_alloc(BT_B * sizeof *label);
    size_t i;
    memset(w, 0, sizeof *w);
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    w->ctx = b_ctx(TINY_TARGET_AUTO, threads);
    w->conv = conv;
    for (i = 0; i < BT_B; i++) label[i] = (int32_t)(i % BT_OUT);
    w->label = tiny_tensor_1d(label, TINY_I32, BT_B);
    if (conv) {
        w->x = tiny_tensor_4d(b_alloc(BT_B * 256 * sizeof(float)), TINY_F32, BT_B, 1, 16, 16);
        bt_add(w, 4, 16, 1, 3, 3, &rng);
        bt_add(w, 1, 16, 1, 1, 1, &rng);
        bt_add(w, 4, 32, 16, 3, 3, &rng);
        bt_add(w, 1, 32, 1, 1, 1, &rng);
        bt_add(w, 2, 88, 512, 1, 1, &rng);
        bt_add(w, 1, 88, 1, 1, 1, &rng);
        bt_add(w, 2, 10, 88, 1, 1, &rng);
        bt_add(w, 1, 10, 1, 1, 1, &rng);
    } else {
        w->x = tiny_tensor_2d(b_alloc(BT_B * BT_IN * sizeof(float)), TINY_F32, BT_B, BT_IN);
        for (i = 0; i < 3; i++) {
            bt_add(w, 2, bt_size[i + 1], bt_size[i], 1, 1, &rng);
            bt_add(w, 1, bt_size[i + 1], 1, 1, 1, &rng);
        }
    }
    tiny_rng_fill_normal(&rng, (float *)w->x.data, (size_t)tiny_tensor_count(&w->x));
    t.bytes = (size_t)64 << 20;
    d.group[0].lr = 1e-6;
    b_must(w->ctx, tiny_tape_open(w->ctx, &t, &w->tape));
    for (i = 0; i < w->n; i++) b_must(w->ctx, tiny_tape_param(w->tape, &w->p[i]));
    b_must(w->ctx, tiny_optim_open(w->ctx, w->p, w->n, &d, &w->optim));
}

void bench_train(void)
{
    static bt_net net[4];
    static bt_plain plain;
    b_row rows[5];
    int i, l;
    memset(rows, 0, sizeof rows);
    bt_open(&net[0], 1, 0);
    bt_open(&net[1], b_threads, 0);
    bt_open(&net[2], 1, 1);
    bt_open(&net[3], b_threads, 1);
    for (l = 0; l < 3; l++) {
        size_t n = (size_t)(bt_size[l] * bt_size[l + 1]);
        plain.w[l] = (float *)b_alloc(n * sizeof(float));
        memcpy(plain.w[l], net[0].p[2 * l].value.data, n * sizeof(float));
        plain.gw[l] = (float *)b_alloc(n * sizeof(float));
        plain.b[l] = (float *)b_alloc(BT_H * sizeof(float));
        plain.gb[l] = (float *)b_alloc(BT_H * sizeof(float));
        for (i = 0; i < 2; i++) {
            plain.m[3 * i + l] = (float *)b_alloc(n * sizeof(float));
            plain.v[3 * i + l] = (float *)b_alloc(n * sizeof(float));
            memset(plain.m[3 * i + l], 0, n * sizeof(float));
            memset(plain.v[3 * i + l], 0, n * sizeof(float));
        }
    }
    for (l = 0; l < 4; l++) {
        plain.a[l] = l ? (float *)b_alloc(BT_B * BT_H * sizeof(float)) : (float *)net[0].x.data;
        plain.d[l] = (float *)b_alloc(BT_B * BT_H * sizeof(float));
    }
    plain.label = (const int32_t *)net[0].label.data;
    for (i = 0; i < 5; i++) {
        rows[i].run = i ? bt_step : bt_loops;
        rows[i].arg = i ? (void *)&net[i - 1] : (void *)&plain;
        rows[i].what = i == 0 ? "MLP step, plain loops" : i < 3 ? "MLP step, tape" : "conv net step, tape";
        rows[i].target = i ? tiny_target_name(tiny_op_target(net[i - 1].ctx, TINY_OP_MATMUL)) : "C";
        rows[i].threads = i == 2 || i == 4 ? b_threads : 1;
        rows[i].limit = B_NONE;
        rows[i].flops = i < 3 ? 6.0 * 21760 * BT_B : 6.0 * BT_B * (256.0 * 144 + 64.0 * 4608 + 45056 + 880);
        b_shape(&rows[i], i < 3 ? "%d x 32-128-128-10" : "%d x 1x16x16, 50688 w", (int)BT_B);
    }
    b_contest("Training steps (forward, backward, AdamW)", rows, 5);
    b_verdict("MLP step: tape over plain loops, one thread", rows[1].median_ns / rows[0].median_ns, "<=", 1.3);
    b_verdict("conv net: images per second, all threads", BT_B / (rows[4].median_ns * 1e-9), ">=", 2000.0);
    b_headline("tape", "a step within 1.3 times of a hand-written loop",
               "forward, backward, AdamW of 100 samples: MLP 32-128-128-10 on one thread, conv net on 1 x 16 x 16",
               "%.2f of the time of plain loops (%.0f us, %.0f us); a conv net of 50688 weights %.0f images a second "
               "on all threads",
               rows[1].median_ns / rows[0].median_ns, rows[1].median_ns * 1e-3, rows[0].median_ns * 1e-3,
               BT_B / (rows[4].median_ns * 1e-9));
    for (i = 0; i < 4; i++) {
        tiny_optim_close(net[i].optim);
        tiny_tape_close(net[i].tape);
        tiny_ctx_close(net[i].ctx);
    }
}
#endif
