/* src/llm/dist/audit.h - rank 0 recomputes, now and then, what a worker has sent
 *
 *   tllm_audit_desc d = { 0 };
 *   d.inner = net; d.file = file; d.share = share; d.n_batch = 64; d.every = 16;                rank 0 only
 *   tllm_audit_open(ctx, &d, &audit);
 *   comm_desc.net = tllm_audit_net(audit);                                                      instead of net
 *   lead_desc.audit = audit;
 *   ... tiny_comm_close(comm), then tllm_audit_close(ctx, audit) ...
 *
 * MACs show that a message comes from a worker, not that its numbers are right. In every d.every-th command, rank 0
 * picks a worker and a layer at random, keeps what that worker adds to the sum of the layer's network, and computes the
 * same from its own file. A difference above the rounding of the wire ends the group with TINY_E_PROTOCOL and the rank
 * of the worker. Attention is not audited: rank 0 has not the keys of the worker. A worker that lies in one of L layers
 * of one command is found with a chance of 1 / (every L (world - 1)), one that always lies in its networks after about
 * every (world - 1) commands.
 * The net is a star (see narrow.h, which may be below it). */
#ifndef TINYI_AUDIT_H
#define TINYI_AUDIT_H
#include "core/net.h"
#include "llm/file/gguf.h"
#include "llm/model/model.h"
TINYI_C_BEGIN

typedef struct tllm_audit_desc {
    tiny_net *inner;                        /* of rank 0; stays the caller's */
    const tllm_gguf *file;                  /* the model that is cut over the ranks; open until the close */
    const double *share;                    /* as in tllm_model_cut_by; stays the caller's, read by the first audits */
    tiny_idx n_batch;                       /* of the lead; 0: 64 */
    int every;                              /* commands from one audit to the next; 0: 16 */
    int format;                             /* of a narrow net below, for its rounding: TLLM_FORMAT_... */
    uint64_t seed;                          /* for tests: which workers and layers; 0: from the system, secret */
} tllm_audit_desc;

typedef struct tllm_audit tllm_audit;
TINY_API tiny_status tllm_audit_open(tiny_ctx *ctx, const tllm_audit_desc *desc, tllm_audit **out);
TINY_API tiny_net *tllm_audit_net(tllm_audit *audit);
TINY_API void tllm_audit_close(tiny_ctx *ctx, tllm_audit *audit);          /* takes NULL */
TINY_API uint64_t tllm_audit_count(const tllm_audit *audit);               /* audits that were passed */

/* ---- inside: for the lead, around the forward pass of a command ---- */

TINYI_FN void tinyi_audit_begin(tllm_audit *audit, tllm_state *state);
TINYI_FN tiny_status tinyi_audit_end(tiny_ctx *ctx, tllm_audit *audit, tllm_state *state);

TINYI_C_END
#endif
