/* src/llm/dist/ring.h - a model whose layers are on several ranks: each computes a window of them in turn
 *
 *   tllm_ring_desc d = { 0 };
 *   d.model = model; d.net = net; d.layers = layers; d.n_ctx = 512; d.n_batch = 64;     layers: (world), the same
 *   tllm_ring_open(ctx, &d, &ring);                     on all ranks, as is everything but net; waits for all
 *   rank 0                                              all other ranks
 *   tllm_session_over(ctx, model, &sd, &session);       tllm_ring_follow(ring);
 *   tllm_generate(session, ...);                          computes until rank 0 stops
 *   tllm_session_close(session); tllm_ring_stop(ring);  returns TINY_OK here
 *   tllm_ring_close(ring);                              on all; then close the model and the net
 *
 * With layers { 4, 2 } and 12 layers, rank 0 computes layers 0-3 and 6-9, rank 1 computes 4-5 and 10-11: two rounds.
 * The hidden state travels, 4 bytes for each of n_embd numbers of a token, and comes back to rank 0 at the end. Only
 * rank 0 sees the tokens, embeds them, and computes the output. The results have the bits of one process.
 *
 * Small windows and several rounds pay when a rank reads its layers from disk: open its model by tllm_disk_open with
 * the same layers. It then reads for its next turn while the others compute. */
#ifndef TINYI_RING_H
#define TINYI_RING_H
#include "core/net.h"
#include "llm/model/model.h"
#include "llm/plan/slots.h"
TINYI_C_BEGIN

typedef struct tllm_ring_desc {             /* all zero but model, net and layers: the sensible default */
    /* whole, or of tllm_disk_model with the same layers. While the ring is open, one state computes with it */
    tllm_model *model;
    tiny_net *net;                          /* stays the caller's; each rank is connected to the next one */
    const tiny_idx *layers;                 /* (world), copied: layers of each rank in a round; whole rounds */
    tiny_idx n_ctx, n_batch;                /* of the states; 0: from the file, at most 4096; 64 */
    int type_k, type_v;                     /* as in tllm_state_desc; the state of rank 0 must have the same */
    uint64_t timeout_ns;                    /* of a wait for another rank; 0: 10 s. Rank 0 may rest between passes */
    double layer_ns;                        /* on a virtual clock: what a layer of this rank takes */
} tllm_ring_desc;

typedef struct tllm_ring_counts {
    uint64_t pieces;                        /* passes over some tokens */
    uint64_t hops, bytes;                   /* messages with hidden states that this rank sent */
    uint64_t wait_ns;                       /* for the rank before, in the middle of a pass */
} tllm_ring_counts;

typedef struct tllm_ring tllm_ring;
/* Waits for all ranks, and fails on all of them unless model, layers and sizes agree. */
TINY_API tiny_status tllm_ring_open(tiny_ctx *ctx, const tllm_ring_desc *desc, tllm_ring **out);
TINY_API void tllm_ring_close(tllm_ring *ring);         /* takes NULL */
/* Rank 0: no more passes. */
TINY_API tiny_status tllm_ring_stop(tllm_ring *ring);
/* Other ranks: computes until rank 0 stops. each: NULL, or called after each piece; nonzero ends the group. */
TINY_API tiny_status tllm_ring_follow(tllm_ring *ring, int (*each)(void *user, tllm_ring *ring), void *user);
TINY_API tllm_ring_counts tllm_ring_count(const tllm_ring *ring);       /* all zero for NULL */
TINY_API uint64_t tllm_ring_clock(const tllm_ring *ring);       /* virtual clock of this rank, nanoseconds */

TINYI_C_END
#endif
