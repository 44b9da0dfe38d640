/* src/llm/dist/lead.h - rank 0 decides what a split model computes, the other ranks follow
 *
 *   rank 0                                               all other ranks
 *   tllm_lead_open(ctx, &d, &lead);                      the same, with the same n_ctx and n_batch
 *   tllm_lead_forward(lead, token, n, pos, logits);      tllm_lead_follow(lead);
 *   ... sample, and again ...
 *   tllm_lead_stop(lead);                                returns TINY_OK here
 *   tllm_lead_close(lead);
 *
 * The ranks need not be of the same kind: a token is drawn on rank 0 only, so processors that round differently never
 * write different texts. The commands are sums too, so every rank learns the times of all ranks on the way.
 * The other ranks see the tokens, unless d.hides_tokens is set. Then they see what rank 0 looks up in the embedding,
 * from which anyone with the model file can tell the tokens. */
#ifndef TINYI_LEAD_H
#define TINYI_LEAD_H
#include "core/comm.h"
#include "llm/dist/audit.h"
#include "llm/model/model.h"
TINYI_C_BEGIN

typedef struct tllm_lead_desc {
    tllm_model *model;                      /* cut for this rank */
    tiny_comm *comm;                        /* opened for at least tllm_lead_most numbers */
    tiny_idx n_ctx, n_batch;                /* the same on all ranks; 0: from the file, at most 4096; 64 */
    int type_k, type_v;                     /* as in tllm_state_desc */
    int hides_tokens;                       /* on all ranks: as in tllm_state_desc; commands then have no tokens */
    tllm_audit *audit;                      /* of rank 0, whose net the comm uses; NULL: none */
} tllm_lead_desc;

/* of all tokens before the last command: time of computing and of waiting for sums, memory that the context holds, what
 * the rank has sent */
typedef struct tllm_lead_rank { double compute_ms, wait_ms, memory_mb, sent_kb, messages; } tllm_lead_rank;

typedef struct tllm_lead tllm_lead;
TINY_API size_t tllm_lead_most(const tllm_model *model, int world, tiny_idx n_batch);
TINY_API tiny_status tllm_lead_open(tiny_ctx *ctx, const tllm_lead_desc *desc, tllm_lead **out);
TINY_API void tllm_lead_close(tllm_lead *lead);         /* takes NULL; before tiny_comm_close */
/* Rank 0: n tokens from position pos on, which must follow the tokens that are held. logits: (n_out) of the last one. A
 * failure ends the group. */
TINY_API tiny_status tllm_lead_forward(tllm_lead *lead, const int32_t *token, tiny_idx n, int64_t pos, float *logits);
TINY_API tiny_status tllm_lead_stop(tllm_lead *lead);
/* Other ranks: computes until rank 0 stops. each: NULL, or called after each command; nonzero ends the group. */
TINY_API tiny_status tllm_lead_follow(tllm_lead *lead, int (*each)(void *user, tllm_lead *lead), void *user);
/* NULL for an unknown rank. */
TINY_API const tllm_lead_rank *tllm_lead_times(const tllm_lead *lead, int rank);
TINY_API uint64_t tllm_lead_tokens(const tllm_lead *lead);      /* computed by this rank */
/* Rank 0: the tokens of the text so far, those of a failed call too. When a rank is lost, its keys are lost with it:
 * open a new group of the ranks that are left and give it these tokens from position 0 on. Valid until the next
 * call. */
TINY_API const int32_t *tllm_lead_told(const tllm_lead *lead, tiny_idx *n);

/* SHA-256 of what the ranks must agree on: the architecture and its numbers, the names, types and shapes of all
 * tensors, and the sizes of the files. It does not read the weights. */
TINY_API void tllm_file_digest(const tllm_gguf *file, unsigned char digest[32]);

TINYI_C_END
#endif
