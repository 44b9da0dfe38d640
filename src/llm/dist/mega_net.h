/* src/llm/dist/mega_net.h - a small transformer, trained on t tensor ranks times d data ranks times p stages
 *
 *   tllm_mega_desc m = { 0 };                       the same on all ranks, but its net
 *   m.net = net;                                    t d p ranks; NULL: one
 *   m.t = 2; m.p = 2;
 *   m.layers = 4; m.width = 64; m.heads = 4; m.vocab = 64; m.context = 32;
 *   m.batch = 16; m.micros = 4;
 *   tllm_mega_open(ctx, &m, &mega);
 *   params = tllm_mega_params(mega, &n);            those of this rank: tiny_optim_open(ctx, params, n, ...)
 *   for (step = 0; step < steps; step++) {
 *       tllm_mega_step(mega, tokens, step, &result);
 *       tiny_optim_step(optim, 1.0);
 *   }
 *
 * Tokens and places are embedded. A layer is RMSNorm, causal attention, RMSNorm, GELU network, both added to the
 * stream; then RMSNorm and a head. The first weights depend on the seed alone, so every split computes the same
 * network. */
#ifndef TINYI_MEGA_NET_H
#define TINYI_MEGA_NET_H
#include "llm/dist/megatron.h"
TINYI_C_BEGIN

typedef struct tllm_mega_desc {             /* zero: the value in brackets */
    tiny_net *net;
    int t, d, p, v;                         /* tensor, data, pipeline ranks; chunks of a stage [1] */
    int kind;                               /* tllm_sched_kind */
    int keep;                               /* nonzero: nothing is computed again */
    int scatter;                            /* nonzero: tensor ranks share what passes between stages */
    int layers, heads;
    tiny_idx width, hidden, vocab, context;         /* hidden [4 width] */
    int batch, micros;                      /* sequences of a step; micro-batches of a data rank [1] */
    double drop;                            /* dropout of what is added to the stream */
    uint64_t seed;
    double *at;                             /* as in tllm_pipe_desc */
    uint64_t timeout_ns;
} tllm_mega_desc;

typedef struct tllm_mega tllm_mega;
TINY_API tiny_status tllm_mega_open(tiny_ctx *ctx, const tllm_mega_desc *desc, tllm_mega **out);
TINY_API void tllm_mega_close(tllm_mega *mega);             /* takes NULL; before the net is closed */
TINY_API const tiny_param *tllm_mega_params(const tllm_mega *mega, size_t *n);
/* Which part of the whole tensor parameter i is: rows row .. row + dim[0] - 1 and columns col .. col + dim[1] - 1; of a
 * vector its numbers from row on. */
TINY_API void tllm_mega_place(const tllm_mega *mega, size_t i, tiny_idx *row, tiny_idx *col);
TINY_API const tllm_grid *tllm_mega_grid(const tllm_mega *mega);
/* tokens (batch, context + 1), the same on all ranks: each predicts the next. Gradients of the mean loss, summed over
 * the data ranks. result may be NULL; its loss is that of the whole batch, on every rank. */
TINY_API tiny_status tllm_mega_step(tllm_mega *mega, const int32_t *tokens, int64_t step, tllm_pipe_result *result);

TINYI_C_END
#endif
