/* src/llm/dist/shard.h - what a plan of llm/dist/rules.h costs on a graph of layers, and that plan executed
 *
 *   tllm_shard_graph(ctx, file, node, TLLM_SHARD_MOST, &n);        the layers of a model file
 *   tllm_shard_cost(ctx, rules, node, n, &auto);                   bytes that a rank sends for one token
 *   tllm_shard_by_hand(ctx, rules, node, n);                       the plan of Megatron-LM instead, where it divides
 *   tllm_shard_cost(ctx, rules, node, n, &hand);
 *
 * Between two layers a value is whole on each rank, split over the ranks, or a sum that is not yet added up. Where a
 * layer cannot take it as it is, it is made whole: by a sum or by collecting the parts, both over a ring. Taking a part
 * of a whole value costs nothing. */
#ifndef TINYI_SHARD_H
#define TINYI_SHARD_H
#include "core/collective.h"
#include "llm/dist/rules.h"
TINYI_C_BEGIN

typedef enum tllm_shard_kind {
    TLLM_SHARD_LOOKUP,                      /* rows of the embedding `tensor` for the tokens */
    TLLM_SHARD_MATMUL,                      /* in[0] times the matrix `tensor`, or an embedding turned around */
    TLLM_SHARD_NORM,                        /* RMS norm, without weights */
    TLLM_SHARD_SILU,
    TLLM_SHARD_GLU,                         /* silu(in[0]) * in[1]; in[1] -1: the two halves of in[0] */
    TLLM_SHARD_ADD,                         /* in[0] + in[1] */
    TLLM_SHARD_ATTENTION                    /* of q, k, v, causal; in[1] and in[2] -1: in[0] holds all three */
} tllm_shard_kind;
#define TLLM_SHARD_MOST 65536               /* nodes */

/* A node reads the results of nodes before it. The result of the last one is that of the graph. */
typedef struct tllm_shard_node {
    int kind;
    int in[3];
    size_t tensor;                          /* of the rules */
    int heads, kv_heads;                    /* of attention */
} tllm_shard_node;

/* of one token */
typedef struct tllm_shard_cost_of { double bytes; size_t n_sums, n_collected; } tllm_shard_cost_of;
/* A result that is split stays so: logits by parts of the vocabulary. A sum is added up. */
TINY_API tiny_status tllm_shard_cost(tiny_ctx *ctx, const tllm_rules *rules, const tllm_shard_node *node, size_t n,
                                     tllm_shard_cost_of *cost);
/* The plan that a person would make: matrices before an attention or a nonlinearity by columns, those after it by rows,
 * the last one and the embedding over the vocabulary. A matrix that the ranks do not divide stays whole. */
TINY_API tiny_status tllm_shard_by_hand(tiny_ctx *ctx, tllm_rules *rules, const tllm_shard_node *node, size_t n);

/* The layers of a GGUF file with tensors named as usual (token_embd, blk.N.attn_q, attn_k, attn_v or attn_qkv,
 * attn_output, ffn_up, ffn_down, perhaps ffn_gate, output). Biases, positions and the weights of norms change no cost
 * and are left out. TINY_E_UNSUPPORTED: other layers. */
TINY_API tiny_status tllm_shard_graph(tiny_ctx *ctx, const tllm_gguf *file, tllm_shard_node *node, size_t room,
                                      size_t *n);

typedef struct tllm_shard_desc {
    const tllm_rules *rules;                /* made for the ranks of coll */
    const tllm_shard_node *node;
    size_t n_nodes;
    const float *const *weight;             /* (tensors): whole, (out, in), or (vocabulary, width); unused ones NULL */
    const int32_t *token;
    size_t n_tokens;
    tiny_coll *coll;                        /* its workspace: tllm_shard_work */
} tllm_shard_desc;
TINY_API size_t tllm_shard_work(const tllm_shard_desc *desc);      /* bytes; SIZE_MAX: more than can be addressed */
/* Every rank calls it with the same plan and reads its parts of the weights only. result: (n_tokens, width); the
 * columns *at .. *at + *size - 1 of this rank are right. */
TINY_API tiny_status tllm_shard_run(tiny_ctx *ctx, const tllm_shard_desc *desc, float *result, size_t *at,
                                    size_t *size);

TINYI_C_END
#endif
