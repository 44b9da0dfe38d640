/* src/llm/dist/onebyte.h - fine-tuning on machines that only run inference, over links that carry bytes
 *
 *   tllm_onebyte_desc d = { 0 };
 *   d.net = net;                                        NULL: one machine
 *   d.tensor = tensors; d.n_tensor = n;                 the same f32 numbers on every machine at the start
 *   d.loss = loss; d.user = me; d.lr = 1e-3; d.samples = 4;
 *   tllm_onebyte_open(ctx, &d, &o);
 *   do st = tllm_onebyte_step(o, &report); while (!st && !report.ended && report.step < 1000);
 *   if (!st && net->rank == 0) st = tllm_onebyte_end(o);        the other ranks call step until ended
 *   tllm_onebyte_close(o);
 *
 * A sample of a step has a random direction z, which every machine makes by itself from (seed, step, sample). The
 * machine of the sample computes the loss at theta + eps z and at theta - eps z. It sends their difference over 2 eps,
 * the slope g along z, as one byte. Every machine then subtracts lr / n * sum of g z from its theta, in the order of
 * the samples. So theta has the same bits on all machines, whatever their SIMD targets, and no gradient, direction or
 * parameter is ever sent.
 *
 * Rank 0 collects the bytes of a step and publishes them as one record. A machine whose list does not arrive in time is
 * left out of that step by all machines. A machine that is behind applies records without computing, until it has
 * caught up. One that joins late starts from the same first numbers and replays all records, or asks rank 0 for theta.
 * Every `check` steps the record has a hash of theta; a machine with another hash asks for theta.
 *
 * Over TCP, a machine that wants to stop early calls tllm_onebyte_leave first: a connection that breaks ends the group
 * (core/tcp.h). The log of rank 0 then restores theta from the first numbers: tllm_onebyte_log, tllm_onebyte_replay.
 * One thread at a time may use a tllm_onebyte. */
#ifndef TINYI_ONEBYTE_H
#define TINYI_ONEBYTE_H
#include "core/net.h"
#include "core/op.h"
TINYI_C_BEGIN

#define TLLM_ONEBYTE_SAMPLES 200            /* most of a machine in a step */

typedef struct tllm_onebyte tllm_onebyte;
/* The loss of sample `sample` of step `step`, at the numbers that tllm_onebyte_tensor returns during this call. Sample
 * numbers are counted over all machines: machine m has m * samples to m * samples + samples - 1. A loss that is not
 * finite gives no gradient; a failure ends the step. */
typedef tiny_status (*tllm_onebyte_loss)(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *loss);

typedef enum tllm_onebyte_join { TLLM_ONEBYTE_REPLAY, TLLM_ONEBYTE_STATE } tllm_onebyte_join;

typedef struct tllm_onebyte_desc {          /* zero: the value in brackets */
    tiny_net *net;                          /* stays the caller's; a star is enough */
    const tiny_tensor *tensor;              /* (n_tensor) dense f32; only steps change their numbers */
    size_t n_tensor;
    tllm_onebyte_loss loss;                 /* NULL: only apply and replay may be called */
    void *user;
    double eps;                             /* [1e-3] */
    double lr;                              /* must be above 0 */
    double half;                            /* the rate of step t is lr / (1 + t / half) [constant] */
    int samples;                            /* of each machine in a step [1] */
    int normal;                             /* 1: z is N(0, 1), 0: -1 or 1 */
    int floats;                             /* 1: 4 bytes a gradient, to compare with */
    /* 1: all tensors at theta +- eps z at once, in memory of their size; 0: one tensor at a time */
    int whole;
    /* |g| is cut at clip times the median of those of the last 256 that are not 0 [10]; below 0: not */
    double clip;
    uint64_t seed;
    uint64_t wait_ns;                       /* rank 0 waits for the lists of a step, after its own [10 s]; 1: not */
    uint64_t lost_ns;                       /* a machine waits for rank 0, rank 0 for the start and the end [60 s] */
    int check;                              /* steps between hashes [16] */
    int least;                              /* machines that must be there before the first step [all] */
    int join;                               /* how this machine gets theta at its start: tllm_onebyte_join */
} tllm_onebyte_desc;

typedef struct tllm_onebyte_report {
    uint64_t step;                          /* steps that theta has had */
    int ended;                              /* rank 0 has ended the run; theta was not changed */
    int gradients, machines;                /* in this step, and the machines that gave some */
    int late, refused;                      /* rank 0: machines whose list was missing; lists that were wrong */
    int none;                               /* own samples without a finite gradient */
    int skipped;                            /* this machine was behind and computed nothing */
    int restored;                           /* theta came from rank 0 */
    double loss;                            /* mean of the losses of the own samples; 0 if skipped */
    uint64_t clock;                         /* virtual clock of this rank, without its own computing */
} tllm_onebyte_report;

TINY_API tiny_status tllm_onebyte_open(tiny_ctx *ctx, const tllm_onebyte_desc *desc, tllm_onebyte **out);
/* Does not close the net. Takes NULL. */
TINY_API void tllm_onebyte_close(tllm_onebyte *o);
/* Tensor i at theta +- eps z during a loss, else at theta. Without `whole`, valid until the next call. */
TINY_API const float *tllm_onebyte_tensor(tllm_onebyte *o, size_t i);
/* One step of this machine. report may be NULL. After a failure theta is that of the last complete step; only a cancel
 * in the middle of an update leaves it between two steps. */
TINY_API tiny_status tllm_onebyte_step(tllm_onebyte *o, tllm_onebyte_report *report);
/* Rank 0: tells all machines that the run is over, after they got every record. Without a step before, it waits for
 * `least` machines first. */
TINY_API tiny_status tllm_onebyte_end(tllm_onebyte *o);
/* Another rank: tells rank 0 that it will not be heard of again. */
TINY_API tiny_status tllm_onebyte_leave(tllm_onebyte *o);
TINY_API uint64_t tllm_onebyte_at(const tllm_onebyte *o);           /* steps that theta has had */
TINY_API uint64_t tllm_onebyte_hash(const tllm_onebyte *o);         /* of theta: the same on every machine */

/* The whole run as bytes, kept by rank 0 and by a single machine; valid until the next step. Replayed on the first
 * numbers, with the same description, it gives the same bits. A machine replays it before its first step. */
TINY_API const void *tllm_onebyte_log(const tllm_onebyte *o, size_t *n_bytes);
TINY_API tiny_status tllm_onebyte_replay(tllm_onebyte *o, const void *log, size_t n_bytes);

/* ---- for a transport of your own */

/* The slope of sample `sample` in the step that comes next; NaN if a loss is not finite. loss: their mean, or NULL */
TINY_API tiny_status tllm_onebyte_gradient(tllm_onebyte *o, uint32_t sample, float *g, double *loss);
typedef struct tllm_onebyte_code { uint32_t sample; unsigned char code; } tllm_onebyte_code;
/* One step by these codes, sorted by sample. Two codes of one sample, and codes that are not sorted, are refused. */
TINY_API tiny_status tllm_onebyte_apply(tllm_onebyte *o, const tllm_onebyte_code *code, size_t n);

/* 0: zero. 128: none (not finite). Else bit 7 is the sign, and |g| = exp((q - 64) / 8) with q = 1 to 127 in the other
 * bits: 3.8e-4 to 2630, relative error at most exp(1/16) - 1. Others are cut to that range. */
TINY_API unsigned char tllm_onebyte_encode(double g);
TINY_API float tllm_onebyte_decode(unsigned char code);             /* none: NaN */

TINYI_C_END
#endif
