/* bench/llm/search.c - TAS: a step of the search with the convolutions as they are published, all channels of an input
 * filled up with zeros, and with the channels that are there; and a step of training of the whole network alone */
#include "../bench.h"
#include <string.h>

#ifdef TINYLLM_NO_SEARCH
void bench_search(void) { }
#else

typedef struct bs {
    tiny_ctx *ctx;
    tllm_supernet *net;
    tllm_resnet *full;
    tllm_nn_set set;
    tllm_logits a, g;
    tiny_rng rng;
} bs;

static void bs_step(void *arg)              /* one step of the weights and one of the logits, each with its own draws */
{
    bs *b = (bs *)arg;
    uint32_t sample[32];
    tllm_draws draws;
    double loss;
    uint32_t i;
    int k;
    for (i = 0; i < 32; i++) sample[i] = i;
    for (k = 0; k < 2; k++) {
        tllm_supernet_draw(b->net, &b->a, 1.0, &b->rng, &draws);
        b_must(b->ctx, tllm_supernet_loss(b->net, &b->set, sample, 32, &b->a, &draws, &loss, k ? &b->g : NULL));
    }
}

static void bs_epoch(void *arg)             /* two batches of 32 */
{
    bs *b = (bs *)arg;
    tllm_resnet_fit_desc d;
    memset(&d, 0, sizeof d);
    d.epochs = 1;
    d.batch = 32;
    b_must(b->ctx, tllm_resnet_fit(b->full, &b->set, &d));
}

void bench_search(void)
{
    static const char *const what[3] = { "search step, filled with zeros", "search step", "two steps of training" };
    static bs b[3];
    tllm_space s;
    tllm_nn_task task;
    b_row r[3];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    int k;
    memset(&s, 0, sizeof s);
    memset(b, 0, sizeof b);
    memset(r, 0, sizeof r);
    s.in[0] = 1;
    s.in[1] = s.in[2] = 16;
    s.n_class = 10;
    s.stem = 16;
    s.stem_stride = 2;
    s.n_stage = 3;
    for (k = 0; k < 3; k++) {
        s.stage[k].width = 16 << k;
        s.stage[k].blocks = 2;
        s.stage[k].stride = k ? 2 : 1;
    }
    b_must(ctx, tllm_nn_task_open(ctx, TLLM_TASK_TEX16, 1, 64, 1, &task));
    for (k = 0; k < 3; k++) {
        tllm_tas_desc d;
        memset(&d, 0, sizeof d);
        d.whole = !k;
        b[k].ctx = ctx;
        b[k].set = task.train;
        b[k].rng = tiny_rng_make(1, 1);     /* the same draws in each round of both */
        if (k < 2) b_must(ctx, tllm_supernet_open(ctx, &s, &d, &b[k].net));
        else b_must(ctx, tllm_resnet_open(ctx, &s, NULL, 1, TINY_F32, &b[k].full));
        r[k].what = what[k];
        r[k].run = k < 2 ? bs_step : bs_epoch;
        r[k].arg = &b[k];
        r[k].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_CONV2D));
        r[k].threads = 1;
        b_shape(&r[k], "32 + 32 images of 16 x 16");
    }
    b_contest("TAS: a step of the search for widths and depths", r, 3);
    b_verdict("search step over one with zeros", r[1].median_ns / r[0].median_ns, "<=", 1.0);
    b_headline("tas", "all widths and depths are searched in one training",
               "a step of weights and one of choices, 32 images each, 16-32-64 channels, one thread",
               "%.1f ms: %.2f of the time with convolutions of all channels, %.2f of two steps of plain training",
               r[1].median_ns * 1e-6, r[1].median_ns / r[0].median_ns, r[1].median_ns / r[2].median_ns);
    for (k = 0; k < 3; k++) {
        tllm_supernet_close(b[k].net);
        tllm_resnet_close(b[k].full);
    }
    tllm_nn_task_close(ctx, &task);
    tiny_ctx_close(ctx);
}
#endif
