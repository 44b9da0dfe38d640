/* bench/gnn/nerf.c - a picture of a field of voxels with four colour networks, and time as padded tensors
 *
 * A ball in free space, 32 corners on each axis, drawn weights: about as many points on a ray as a learnt scene has.
 * The rival is the same spiking network as other programs run it: a tensor with as many steps of time as the longest
 * ray needs, for all rays. The float network has the same layers; on a processor with wide multiply-adds it may win. */
#include "../bench.h"
#include "tinygnn.h"
#include <math.h>
#include <string.h>

enum { BN_SIDE = 48, BN_RAYS = BN_SIDE * BN_SIDE, BN_CORNERS = 32 };

typedef struct bn { tiny_ctx *ctx; tgnn_nerf *net; tiny_tensor rays, seen; tgnn_nerf_count count; } bn;

static void bn_run(void *arg)
{
    bn *h = (bn *)arg;
    b_must(h->ctx, tgnn_nerf_render(h->ctx, h->net, &h->rays, &h->seen, NULL));
}

/* a ball of radius 0.6, drawn features, and weights that let a part of the neurons fire */
static tgnn_nerf *bn_ball(tiny_ctx *ctx, int net, int time, int padded)
{
    tgnn_nerf_desc d;
    tgnn_nerf *made;
    const tiny_param *p;
    size_t n;
    int i, k;
    memset(&d, 0, sizeof d);
    d.size[0] = d.size[1] = d.size[2] = BN_CORNERS;
    d.net = net;
    d.time = time;
    d.padded = padded;
    b_must(ctx, tgnn_nerf_open(ctx, &d, &made));
    p = tgnn_nerf_params(made, &n);
    for (i = 0; i < BN_CORNERS * BN_CORNERS * BN_CORNERS; i++) {
        double r = 0;
        for (k = 0; k < 3; k++) {
            const int at = k == 0 ? i / (BN_CORNERS * BN_CORNERS) : k == 1 ? i / BN_CORNERS % BN_CORNERS
                : i % BN_CORNERS;
            r += (2.0 * at / (BN_CORNERS - 1) - 1) * (2.0 * at / (BN_CORNERS - 1) - 1);
        }
        ((float *)p[0].value.data)[i] = r < 0.36 ? 3.5f : -20.0f;
    }
    for (k = 1; k < 4; k++)
        for (i = 0; i < (int)tiny_tensor_count(&p[k].value); i++)
            ((float *)p[k].value.data)[i] *= k == 1 ? 10.0f : net == TGNN_NERF_FLOAT ? 1.0f : 2.0f;
    b_must(ctx, tgnn_nerf_cull(ctx, made, NULL));
    return made;
}

void bench_nerf(void)
{
    static const struct { const char *what; int net, time, padded, all; } form[6] = {
        { "TCP", TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 0, 0 },
        { "TCP", TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 0, 1 },
        { "TCP, padded", TGNN_NERF_SPIKES, TGNN_NERF_CONDENSED, 1, 0 },
        { "TP, padded", TGNN_NERF_SPIKES, TGNN_NERF_PADDED, 1, 0 },
        { "repeated 4 times", TGNN_NERF_REPEAT, 0, 0, 0 },
        { "float", TGNN_NERF_FLOAT, 0, 0, 0 }
    };
    static bn h[6];
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    float *rays = (float *)b_alloc(BN_RAYS * 6 * 4), *seen = (float *)b_alloc(BN_RAYS * 3 * 4);
    b_row row[6];
    int i;
    memset(row, 0, sizeof row);
    for (i = 0; i < BN_RAYS; i++) {
        rays[6 * i] = -3.0f;
        rays[6 * i + 1] = 0.3f;
        rays[6 * i + 2] = -0.2f;
        rays[6 * i + 3] = 1.0f;
        rays[6 * i + 4] = 0.7f * ((float)(i / BN_SIDE) / BN_SIDE - 0.5f) - 0.1f;
        rays[6 * i + 5] = 0.7f * ((float)(i % BN_SIDE) / BN_SIDE - 0.5f);
    }
    for (i = 0; i < 6; i++) {
        bn *s = &h[i];
        s->ctx = form[i].all ? all : one;
        s->net = bn_ball(s->ctx, form[i].net, form[i].time, form[i].padded);
        s->rays = tiny_tensor_2d(rays, TINY_F32, BN_RAYS, 6);
        s->seen = tiny_tensor_2d(seen, TINY_F32, BN_RAYS, 3);
        b_must(s->ctx, tgnn_nerf_render(s->ctx, s->net, &s->rays, &s->seen, &s->count));
        row[i].what = form[i].what;
        row[i].target = tiny_target_name(tiny_ctx_target(s->ctx));
        row[i].threads = form[i].all ? b_threads : 1;
        row[i].limit = B_NONE;
        row[i].flops = 2.0 * (double)s->count.multiply_adds + (double)s->count.additions;
        row[i].run = bn_run;
        row[i].arg = s;
        b_shape(&row[i], "%d rays, %.1f points", BN_RAYS, (double)s->count.points / BN_RAYS);
    }
    b_contest("Radiance field, 32^3 corners, colour networks of 128 neurons", row, 6);
    b_note("steps of time: %.1f a ray, as a tensor %.1f (TCP) and %.1f (TP); %.1f %% and %.1f %% of the neurons fire",
           (double)h[0].count.steps / BN_RAYS, (double)h[0].count.padded_steps / BN_RAYS,
           (double)h[3].count.padded_steps / BN_RAYS,
               100.0 * (double)h[0].count.spikes[0] / (double)h[0].count.steps / 128,
           100.0 * (double)h[0].count.spikes[1] / (double)h[0].count.steps / 128);
    b_verdict("spiking colours as padded tensors over ragged rays (TCP), one thread",
              row[2].median_ns / row[0].median_ns,
              ">", 1.2);
    b_headline("spikingnerf", "shorter time by condensing", "a ball in free space, 2304 rays, 128 neurons, one thread",
               "as tensors, TP / TCP %.2f; TCP as a tensor / ragged %.2f; the float network / TCP ragged %.2f",
               row[3].median_ns / row[2].median_ns, row[2].median_ns / row[0].median_ns,
               row[5].median_ns / row[0].median_ns);
    for (i = 0; i < 6; i++) tgnn_nerf_close(h[i].net);
    b_free(rays);
    b_free(seen);
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
