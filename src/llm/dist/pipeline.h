/* src/llm/dist/pipeline.h - training of a network whose pieces are on several ranks, a micro-batch after the other
 *
 * Each rank of a net is a stage. It holds the parameters of its pieces only (llm/dist/schedule.h), and sends what goes
 * from one piece into the next. A stage keeps the input of each live micro-batch and computes a piece again before its
 * backward pass; with `keep` it keeps all values instead. Both give the same bits.
 *
 *   static tiny_tensor piece(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x);
 *
 *   tllm_pipe_desc d = { 0 };                       the same on each stage, but net, params and user
 *   d.net = net;
 *   d.schedule.kind = TLLM_SCHED_1F1B;
 *   d.schedule.micros = 8;
 *   d.rows = 256;
 *   d.width = width;
 *   d.params = params; d.n_params = n;              those of the pieces of this stage
 *   d.run = piece;
 *   tllm_pipe_open(ctx, &d, &pipe);
 *   for (step = 0; step < steps; step++) {
 *       tllm_pipe_run(pipe, step, &result);         params[].grad: gradients of the mean loss of all rows
 *       tiny_optim_step(optim, 1.0);
 *   }
 *   tllm_pipe_close(pipe);
 *
 * A failure ends the group: every rank gets one. Each wait ends at the time-out. */
#ifndef TINYI_PIPELINE_H
#define TINYI_PIPELINE_H
#include "core/net.h"
#include "llm/dist/schedule.h"
#include "math/layer.h"
TINYI_C_BEGIN

typedef struct tllm_pipe_at {               /* what is to be computed */
    int piece, micro;
    tiny_idx row, rows;                     /* rows row .. row + rows - 1 of the batch */
    int64_t step;
    uint64_t seed;
    int again;                              /* nonzero: this forward pass was computed before */
} tllm_pipe_at;

/* Computes a piece on the tape. x (rows, width[piece]); NULL for piece 0, which reads its rows elsewhere. The result is
 * dense, with width[piece + 1] numbers a row, in any shape; of the last piece a single number, the mean loss of the
 * rows. Called with the same `at`, but `again`, it must do the same. In the dry run at open (tiny_tape_dry) it must not
 * read data of the tape. */
typedef tiny_tensor (*tllm_pipe_fn)(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x);

typedef struct tllm_pipe_desc {             /* zero: the value in brackets */
    tiny_net *net;                          /* one rank for each stage; stays the caller's [one stage] */
    tllm_sched schedule;                    /* stages [those of net]; micros [1] */
    int keep;                               /* nonzero: nothing is computed again */
    /* of a batch. A micro-batch has ceil(rows / micros) of them, the last one the rest */
    tiny_idx rows;
    tiny_idx rows_in_all;                   /* with several pipelines: of all of them together [rows] */
    const tiny_idx *width;                  /* (pieces): numbers of a row that enters a piece; the first is not read */
    const tiny_param *params;               /* (n_params) f32; copied, their memory stays in use */
    size_t n_params;
    tllm_pipe_fn run;
    void *user;
    uint64_t seed;                          /* goes into tllm_pipe_at */
    uint64_t timeout_ns;                    /* of a wait [60 s] */
    tllm_sched_time spend;                  /* virtual clock: nanoseconds of the passes of a stage; hop is not used */
    /* (items, 2): where each run leaves start and end of its items, in ns. Waiting for a gradient does not count. */
    double *at;
} tllm_pipe_desc;

typedef struct tllm_pipe_result {
    double loss;                            /* mean over the rows; on the last stage, 0 on others */
    int recomputed;                         /* forward passes that were computed again */
    size_t stash_bytes;                     /* most inputs of pieces that were held at a time */
    size_t inner_bytes;                     /* most values inside pieces that were held at a time */
    uint64_t waited_ns;                     /* real time in waits */
    uint64_t clock;                         /* of a virtual clock */
} tllm_pipe_result;

typedef struct tllm_pipe tllm_pipe;
TINY_API tiny_status tllm_pipe_open(tiny_ctx *ctx, const tllm_pipe_desc *desc, tllm_pipe **out);
TINY_API void tllm_pipe_close(tllm_pipe *pipe);             /* takes NULL; before the net is closed */
/* Forward and backward passes of one batch. All stages call it. result may be NULL. */
TINY_API tiny_status tllm_pipe_run(tllm_pipe *pipe, int64_t step, tllm_pipe_result *result);
/* Bytes that the pipeline holds: inputs and gradients of pieces, tapes. */
TINY_API size_t tllm_pipe_bytes(const tllm_pipe *pipe);

/* Layers of a piece. Dropout sets a number to 0 with probability p and divides the others by 1 - p. The draws depend on
 * seed, step, layer, the number of the row in the batch and the column: micro-batches and stages do not change them. */
TINY_API tiny_tensor tllm_pipe_dropout(tiny_tape *tape, const tllm_pipe_at *at, const tiny_tensor *x, int layer,
                                       double p);
/* Batch norm of x (rows, c): mean and variance of the micro-batch. After the last micro-batch of a batch of n rows the
 * running mean and var (c) move towards those of the whole batch by momentum [0.1]. sum: (2 c + 1), for one layer. */
typedef struct tllm_pipe_norm { float *mean, *var; double *sum, momentum; tiny_idx n; } tllm_pipe_norm;
TINY_API tiny_tensor tllm_pipe_batch_norm(tiny_tape *tape, const tllm_pipe_at *at, const tiny_tensor *x,
                                          const tiny_tensor *g, const tiny_tensor *b, const tllm_pipe_norm *norm);

TINYI_C_END
#endif
