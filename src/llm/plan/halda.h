/* src/llm/plan/halda.h - how many layers each device of a ring computes, so that a token takes the least time
 *
 *   tllm_device d[3] = { ... };                  what each device can do: seconds of a layer, free memory, disk
 *   tllm_halda_model m = { ... };                layers, and bytes of a layer
 *   tllm_halda(ctx, &m, d, 3, &plan);
 *   plan.window[i]                               layers of device i in one round; 0: better without it
 *   plan.k                                       rounds for one token
 *
 * Devices stand in a ring. Device m computes window[m] consecutive layers and hands the hidden state on; after k rounds
 * all layers are done. A device whose layers do not fit into its memory reads them from disk again in every round. It
 * does so while the others compute, if its window fits (llm/dist/ring.h). */
#ifndef TINYI_HALDA_H
#define TINYI_HALDA_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_HALDA_DEVICES 64               /* at most */
#define TLLM_HALDA_LAYERS 1024

typedef enum tllm_system { TLLM_SYSTEM_LINUX, TLLM_SYSTEM_ANDROID, TLLM_SYSTEM_MACOS, TLLM_SYSTEM_OTHER } tllm_system;

typedef struct tllm_device {
    double layer_s;                         /* seconds of one layer on its processor */
    double accel_s;                         /* the same on its accelerator minus layer_s; 0: it has none */
    double memory, accel_memory;            /* free bytes */
    double disk;                            /* bytes per second: sequential on Linux, random reads elsewhere */
    double scratch, accel_scratch;          /* bytes of buffers */
    int system;                             /* tllm_system */
    int unified;                            /* macOS: the accelerator uses the same memory */
    int resident;                           /* nonzero: never gets more layers than fit into its memory */
} tllm_device;

typedef struct tllm_halda_model {
    tiny_idx n_layer, n_vocab;
    double layer_bytes;                     /* weights of a layer */
    double held_bytes;                      /* keys and values of a layer for the whole context */
    double input_bytes, output_bytes;       /* of device 0 */
    double output_s;                        /* seconds of the output on device 0 */
} tllm_halda_model;

/* what a device does when memory is short: 1 macOS without accelerator, 2 macOS with one, 3 Linux and Android: they
 * read again what does not fit; 4: everything fits, or the disk is too slow to be used */
typedef struct tllm_halda_plan {
    tiny_idx k;                             /* rounds */
    tiny_idx window[TLLM_HALDA_DEVICES];    /* 0: left out */
    tiny_idx accel[TLLM_HALDA_DEVICES];     /* how many of them on the accelerator */
    int set[TLLM_HALDA_DEVICES];            /* 1 to 4 */
    int n_used, n_solved;                   /* devices in the ring; problems that were solved on the way */
    double layers_s;                        /* k sum(a w + b n) */
    double seconds;                         /* of a token: with the output and what is read for it */
} tllm_halda_plan;

/* TINY_E_UNSUPPORTED: no division of the layers fits these devices. */
TINY_API tiny_status tllm_halda(tiny_ctx *ctx, const tllm_halda_model *model, const tllm_device *device, int n,
                                tllm_halda_plan *plan);

/* The problem inside, for given sets: minimise k sum(a w + b n) over k dividing n_layer (at most n_layer / 2), windows
 * w >= 1 with sum n_layer / k, 0 <= n <= w. A row is a device; z and accel_z are shares of all layers that fit. */
typedef struct tllm_halda_row { double a, b, z, accel_z; int set, macos; } tllm_halda_row;
TINY_API tiny_status tllm_halda_solve(tiny_ctx *ctx, const tllm_halda_row *row, int n, tiny_idx n_layer,
                                      tllm_halda_plan *plan);

/* ---- a ring in time ---- */

typedef struct tllm_ring_device {
    tiny_idx window;                        /* layers a round */
    double layer_s;
    double missing;                         /* bytes that it reads again for each round */
    double disk;                            /* bytes per second */
} tllm_ring_device;
/* Exact times of n_tokens tokens through k rounds of the ring: seconds (n_tokens) is when each one is back at device
 * 0, after hop_s for each handing over and output_s at the end. Reading for the next round begins when a device has
 * handed over. Everything is loaded at the start. */
TINY_API tiny_status tllm_ring_simulate(tiny_ctx *ctx, const tllm_ring_device *device, int n, tiny_idx k, double hop_s,
                                        double output_s, double *seconds, tiny_idx n_tokens);

TINYI_C_END
#endif
