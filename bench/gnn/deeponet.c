/* bench/gnn/deeponet.c - a DeepONet on a list of points, and the training of one network for three tasks
 *
 * The rival of the run is the plain loop over the same layers with tanhf, the trunk once for all samples, one thread.
 * The rivals of the training are three networks, one for each task: of together as many parameters, and of as many
 * each. Each takes as many steps as the one network does, with as many samples in a step. */
#include "../bench.h"
#include "tinygnn.h"
#include <math.h>
#include <string.h>

enum { DON_W = 128, DON_IN = 128, DON_C = 4, DON_SAMPLES = 32, DON_POINTS = 512, DON_TASKS = 3, DON_STEPS = 4 };

typedef struct don {
    tiny_ctx *ctx;
    int form;                               /* 0: run, 1: with a basis, 2: the loop, 3: one for all, 4: three */
    tgnn_deeponet *net[DON_TASKS];
    tgnn_deeponet_query q;
    tiny_tensor in[2], points, basis, y;
    tgnn_deeponet_task task[DON_TASKS];
    float *a, *b, *c;                       /* rows of layers */
} don;

static void don_layer(float *y, const float *x, const tiny_param *p, int rows, int act)
{
    const float *w = (const float *)p[0].value.data, *bias = (const float *)p[1].value.data;
    const int n_out = (int)p[0].value.dim[0], n_in = (int)p[0].value.dim[1];
    int r, o, k;
    for (r = 0; r < rows; r++)
        for (o = 0; o < n_out; o++) {
            float sum = bias[o];
            for (k = 0; k < n_in; k++) sum += w[o * n_in + k] * x[r * n_in + k];
            y[r * n_out + o] = act ? tanhf(sum) : sum;
        }
}

static void don_loop(const don *h)
{
    const tiny_param *p = tgnn_deeponet_params(h->net[0], NULL);
    const float b0 = *(const float *)p[18].value.data;
    float *y = (float *)h->y.data;
    int branch, i, j, k;
    for (branch = 0; branch < 2; branch++) {
        don_layer(h->a, (const float *)h->in[branch].data, p + 6 + 6 * branch, DON_SAMPLES, 1);
        don_layer(h->b, h->a, p + 8 + 6 * branch, DON_SAMPLES, 1);
        don_layer(h->a, h->b, p + 10 + 6 * branch, DON_SAMPLES, 0);
        for (i = 0; i < DON_SAMPLES * DON_W; i++) h->c[i] = branch ? h->c[i] * h->a[i] : h->a[i];
    }
    don_layer(h->a, (const float *)h->points.data, p, DON_POINTS, 1);
    don_layer(h->b, h->a, p + 2, DON_POINTS, 1);
    don_layer(h->a, h->b, p + 4, DON_POINTS, 1);
    for (i = 0; i < DON_SAMPLES; i++)
        for (j = 0; j < DON_POINTS; j++) {
            float sum = b0;
            for (k = 0; k < DON_W; k++) sum += h->c[i * DON_W + k] * h->a[j * DON_W + k];
            y[i * DON_POINTS + j] = sum;
        }
}

static void don_run(void *arg)
{
    don *h = (don *)arg;
    tgnn_deeponet_fit_desc fit;
    int k;
    if (h->form == 2) don_loop(h);
    if (h->form < 2) b_must(h->ctx, tgnn_deeponet_run(h->ctx, h->net[0], &h->q, &h->y));
    if (h->form < 3) return;
    memset(&fit, 0, sizeof fit);
    fit.steps = DON_STEPS;
    for (k = 0; k < (h->form == 3 ? 1 : DON_TASKS); k++) {
        fit.task = h->task + k;
        fit.n_tasks = h->form == 3 ? DON_TASKS : 1;
        fit.batch = h->form == 3 ? 8 : 8 * DON_TASKS;
        b_must(h->ctx, tgnn_deeponet_fit(h->ctx, h->net[k], &fit, NULL));
    }
}

static tgnn_deeponet *don_net(tiny_ctx *ctx, int width)
{
    tgnn_deeponet_desc d;
    tgnn_deeponet *net;
    memset(&d, 0, sizeof d);
    d.n_branches = 2;
    d.branch[0].n_in = DON_IN;
    d.branch[1].n_in = DON_C;
    d.branch[0].width = d.branch[1].width = d.width = d.p = width;
    d.d = 2;
    b_must(ctx, tgnn_deeponet_open(ctx, &d, &net));
    return net;
}

void bench_deeponet(void)
{
    static const char *const what[7] = { "deeponet", "deeponet", "with a basis", "a plain loop", "one network, 3 tasks",
                                         "3, each a third", "3, each as large" };
    static const int form[7] = { 0, 0, 1, 2, 3, 4, 4 };
    static don h[7];
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    float *in = (float *)b_alloc(DON_SAMPLES * DON_IN * 4), *c = (float *)b_alloc(DON_SAMPLES * DON_C * 4),
          *at = (float *)b_alloc(DON_POINTS * 2 * 4), *basis = (float *)b_alloc(DON_POINTS * DON_W * 4),
          *y = (float *)b_alloc(DON_SAMPLES * DON_POINTS * 4), *t = (float *)b_alloc(DON_SAMPLES * DON_POINTS * 4),
          *a = (float *)b_alloc(DON_POINTS * DON_W * 4), *b = (float *)b_alloc(DON_POINTS * DON_W * 4),
          *work = (float *)b_alloc(DON_SAMPLES * DON_W * 4);
    tgnn_deeponet *net = don_net(one, DON_W), *single[DON_TASKS] = { NULL, NULL, NULL }, *large[DON_TASKS];
    b_row row[7];
    int i, k, width = DON_W;
    const double trunk = DON_POINTS * (2.0 * DON_W + 2.0 * DON_W * DON_W),
                 branch = DON_SAMPLES * (DON_IN + DON_C + 4.0 * DON_W) * DON_W,
                 sum = (double)DON_SAMPLES * DON_POINTS * DON_W;
    memset(row, 0, sizeof row);
    do {                                    /* as many parameters in three as in one */
        tgnn_deeponet_close(single[0]);
        single[0] = don_net(one, --width);
    } while (3 * tgnn_deeponet_count(single[0]) > tgnn_deeponet_count(net));
    for (k = 1; k < DON_TASKS; k++) single[k] = don_net(one, width);
    for (k = 0; k < DON_TASKS; k++) large[k] = don_net(one, DON_W);
    for (i = 0; i < 7; i++) {
        don *s = &h[i];
        memset(s, 0, sizeof *s);
        s->ctx = i == 1 ? all : one;
        s->form = form[i];
        for (k = 0; k < DON_TASKS; k++) s->net[k] = i == 5 ? single[k] : i == 6 ? large[k] : net;
        s->in[0] = tiny_tensor_2d(in, TINY_F32, DON_SAMPLES, DON_IN);
        s->in[1] = tiny_tensor_2d(c, TINY_F32, DON_SAMPLES, DON_C);
        s->points = tiny_tensor_2d(at, TINY_F32, DON_POINTS, 2);
        s->basis = tiny_tensor_2d(basis, TINY_F32, DON_POINTS, DON_W);
        s->y = tiny_tensor_2d(y, TINY_F32, DON_SAMPLES, DON_POINTS);
        s->q.in = s->in;
        s->q.points = &s->points;
        if (!i) b_must(one, tgnn_deeponet_basis(one, net, &s->q, &s->basis));
        if (form[i] == 1) s->q.basis = &s->basis;
        for (k = 0; k < DON_TASKS; k++) {
            s->task[k].query = s->q;
            s->task[k].truth = tiny_tensor_2d(t, TINY_F32, DON_SAMPLES, DON_POINTS);
        }
        s->a = a;
        s->b = b;
        s->c = work;
        row[i].what = what[i];
        row[i].target = form[i] == 2 ? "plain C" : tiny_target_name(tiny_ctx_target(s->ctx));
        row[i].threads = i == 1 ? b_threads : 1;
        row[i].limit = i < 4 ? B_F32 : B_NONE;
        row[i].flops = i < 4 ? 2 * (branch + sum + (form[i] == 1 ? 0 : trunk)) : 0;
        row[i].run = don_run;
        row[i].arg = s;
        b_shape(&row[i], "%d x %d points", i < 4 ? DON_SAMPLES : DON_STEPS * 24, DON_POINTS);
    }
    b_contest("DeepONet, two branches and a trunk of three layers, width 128", row, 4);
    b_verdict("a plain loop over the DeepONet, one thread", row[3].median_ns / row[0].median_ns, ">", 2.0);
    b_contest("DeepONet, 4 steps of training, 24 samples a step", row + 4, 3);
    b_verdict("three networks, one for each task and as large, over one for all: time of training",
              row[6].median_ns / row[4].median_ns, ">", 2.0);
    b_headline("deeponet", "one training for three families costs less than three",
               "three tasks, as many steps, 24 samples a step, 512 points, one thread",
               "three networks / one: %.2f with as many parameters in all, %.2f with as many each; a run: a plain loop "
               "/ ours %.1f", row[5].median_ns / row[4].median_ns, row[6].median_ns / row[4].median_ns,
               row[3].median_ns / row[0].median_ns);
    tgnn_deeponet_close(net);
    for (k = 0; k < DON_TASKS; k++) {
        tgnn_deeponet_close(single[k]);
        tgnn_deeponet_close(large[k]);
    }
    b_free(in);
    b_free(c);
    b_free(at);
    b_free(basis);
    b_free(y);
    b_free(t);
    b_free(a);
    b_free(b);
    b_free(work);
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
