/* src/llm/serve/energon_net.h - a rank of a stage of a llama model, for batches of whole texts
 *
 *   tllm_stage_net_desc n = { 0 };
 *   n.file = file; n.stages = 2; n.stage = 1; n.tensor = 2; n.column = 0; n.group = tllm_energon_group(e);
 *   tllm_stage_net_open(ctx, &n, &net);
 *   e_desc.run = tllm_stage_net_run; e_desc.user = net;   of a pipeline: row[] from tllm_stage_net_rows
 *
 * Stage s computes layers s L / S to (s + 1) L / S - 1. Stage 0 also embeds tokens. The last one gives the logits of
 * the last token of each text. Weights become floats.
 *
 * Tensor ranks have some of the heads and of the hidden numbers each, and add their parts. The sums are a tree over
 * `parts` pieces, whatever the number of ranks. So the results have the same bits on 1, 2, 4 ... ranks if parts is the
 * same, and on any number of stages. */
#ifndef TINYI_ENERGON_NET_H
#define TINYI_ENERGON_NET_H
#include "llm/file/gguf.h"
#include "llm/serve/energon.h"
#include "llm/serve/energon_pool.h"
TINYI_C_BEGIN

typedef struct tllm_stage_net_desc {        /* all zero but file: one rank computes the model */
    /* architecture llama without biases or scaled rotations; stays open only during tllm_stage_net_open, and as long as
     * the net if k is not 0 */
    const tllm_gguf *file;
    int stage, stages, column, tensor;      /* stages, tensor 0: 1 */
    int parts;                              /* a power of two, a multiple of tensor, that divides heads; 0: tensor */
    tiny_net *group;                        /* of the tensor ranks; may be set later: tllm_stage_net_join */
    tiny_idx texts, tokens;                 /* of a batch, at most; 0: 8, 1024 */
    int form;                               /* tllm_rows_form: VALID, or one with padding, to compare with */
    /* not 0: every k-th layer of the stage lives with the lender of the net `pool`, or in the file if that is NULL */
    tiny_idx k;
    tiny_net *pool;
    double pool_rate;                       /* bytes_per_second of tllm_pool_desc */
    int pool_ahead;
} tllm_stage_net_desc;

typedef struct tllm_stage_net tllm_stage_net;
TINY_API tiny_status tllm_stage_net_open(tiny_ctx *ctx, const tllm_stage_net_desc *desc, tllm_stage_net **out);
TINY_API void tllm_stage_net_close(tllm_stage_net *net);        /* takes NULL */
TINY_API tiny_status tllm_stage_net_join(tllm_stage_net *net, tiny_net *group);
/* A tllm_energon_run: user is the net. */
TINY_API tiny_status tllm_stage_net_run(void *user, tllm_energon_batch *batch, const void *in, void *out);
/* row (stages + 1) and print of tllm_energon_desc. Refuses models that cannot run. */
TINY_API tiny_status tllm_stage_net_rows(tiny_ctx *ctx, const tllm_gguf *file, int stages, size_t *row,
                                         uint64_t *print);
/* The other side of desc.pool: lends the layers that a net with this description does not hold. */
TINY_API tiny_status tllm_stage_net_lend(tiny_ctx *ctx, const tllm_stage_net_desc *desc, tiny_net *pool);
TINY_API void tllm_stage_net_look(tllm_stage_net *net, tllm_pool_about *about);

TINYI_C_END
#endif
