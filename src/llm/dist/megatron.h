/* src/llm/dist/megatron.h - layers split over tensor ranks, and the costs of splitting a model three ways
 *
 * A matrix (out, in) is split by its outputs (column-parallel: every rank needs all of x, and has some of y) or by its
 * inputs (row-parallel: a rank has some of x, and y is a sum over the ranks). A network is a column layer, a
 * non-linearity and a row layer; attention splits its heads. Each costs a sum over the ranks in the forward pass, and
 * one in the backward pass:
 *
 *   h = tllm_tp_column(tape, tp, &x, &w1, &b1, TINY_ACT_GELU);      w1 (hidden / t, width): rows of the whole matrix
 *   y = tllm_tp_row(tape, tp, &h, &w2, &b2);                        w2 (width, hidden / t): columns of it
 *
 * Gradients of parameters that every rank has are the same bits on every rank. All tensor ranks make the same calls. */
#ifndef TINYI_MEGATRON_H
#define TINYI_MEGATRON_H
#include "core/collective.h"
#include "llm/dist/grid.h"
#include "llm/dist/pipeline.h"
TINYI_C_BEGIN

typedef struct tllm_tp tllm_tp;
typedef struct tllm_tp_desc {
    tiny_net *net;                          /* of the tensor ranks; NULL: one rank */
    size_t n_most;                          /* numbers of the longest sum */
    int way;                                /* a tiny_comm_way; 0: TINY_COMM_RING */
    uint64_t timeout_ns;                    /* of a sum; 0: 60 s */
} tllm_tp_desc;
TINY_API tiny_status tllm_tp_open(tiny_ctx *ctx, const tllm_tp_desc *desc, tllm_tp **out);
TINY_API void tllm_tp_close(tllm_tp *tp);                   /* takes NULL; after the tapes that used it */

/* tp NULL: one rank. Failures stay in the tape. */
/* x itself; its gradient is summed over the ranks. Once for all matrices that read x: q, k and v share it. */
TINY_API tiny_tensor tllm_tp_enter(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x);
TINY_API tiny_tensor tllm_tp_column(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x, const tiny_tensor *w,
                                    const tiny_tensor *bias, int act);
/* bias NULL, or added once, after the sum */
TINY_API tiny_tensor tllm_tp_row(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x, const tiny_tensor *w,
                                 const tiny_tensor *bias);
/* For a border between pipeline stages: a rank passes on the part of x (rows, n) that is its own, (rows, n / t), and
 * the ranks of the next stage gather x again. t divides n. */
TINY_API tiny_tensor tllm_tp_scatter(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x);
TINY_API tiny_tensor tllm_tp_gather(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x);
/* Mean cross-entropy of logits whose columns are split, in the order of the ranks: x (n, vocabulary / t), label (n) i32
 * of the whole vocabulary. Three numbers a row are exchanged. */
TINY_API tiny_tensor tllm_tp_cross_entropy(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x,
                                           const tiny_tensor *label);
/* grad of each parameter becomes the sum over the ranks of a net: for data parallel ranks. NULL: one rank. */
TINY_API tiny_status tllm_tp_sum(tiny_ctx *ctx, tiny_net *net, const tiny_param *params, size_t n_params);

/* ---- formulas of the paper. l layers of width h, vocabulary V, sequences of S tokens, batch of B sequences */

typedef struct tllm_mega_model { double layers, width, heads, vocab, context; } tllm_mega_model;
TINY_API double tllm_mega_count(const tllm_mega_model *m);
/* of one step of `batch` sequences; recompute: with a second forward pass */
TINY_API double tllm_mega_flops(const tllm_mega_model *m, double batch, int recompute);
/* Days for `tokens` tokens on `workers` that each reach `flops` a second, with recomputation. */
TINY_API double tllm_mega_days(double tokens, double params, double workers, double flops);
/* Layers between two checkpoints: what is kept is then least. */
TINY_API double tllm_mega_checkpoints(double layers, double input_bytes, double inner_bytes);
/* Seconds of one step: ((B / d) / b + (p - 1) / v) (f + b) */
TINY_API double tllm_mega_time(double batch, double data, double micro, double stages, double chunks, double both);

typedef struct tllm_mega_machine {
    int workers, fast;                      /* fast: workers that a fast network joins; t is at most this */
    double flops;                           /* a second, of one worker */
    double memory;                          /* bytes of a worker */
    tiny_coll_line near_line, far_line;     /* seconds: latency, a byte; between tensor ranks, and between all others */
    double param_bytes;                     /* weight, gradient and optimiser; 0: 16 */
    double number_bytes;                    /* of an activation; 0: 4 */
} tllm_mega_machine;
typedef struct tllm_mega_plan {
    int t, p, d, v, micro;                  /* micro: sequences of a micro-batch */
    double seconds, bytes;                  /* of a step; on the fullest worker */
    double bubble, sums, gradients, borders;        /* seconds of it that are idle or pass in messages */
} tllm_mega_plan;
/* All splits of a step of `batch` sequences with recomputation that fit, the fastest first. plans: room for `room` of
 * them; *n: how many there are. TINY_E_ARGUMENT with a sentence if none fits. */
TINY_API tiny_status tllm_mega_plans(tiny_ctx *ctx, const tllm_mega_model *model, const tllm_mega_machine *machine,
                                     int batch, tllm_mega_plan *plans, size_t room, size_t *n);

/* ---- inside: what the bodies share ---- */

/* tllm_tp_sum with a time-out for each sum; 0: 60 s */
TINYI_FN tiny_status tinyi_tpar_sum_list(tiny_ctx *ctx, tiny_net *net, const tiny_param *params, size_t n_params,
                                         uint64_t timeout_ns);

TINYI_C_END
#endif
