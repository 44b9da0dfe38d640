/* src/llm/dist/rules.h - how to split a model of any architecture over ranks: rules from names and shapes (Redco)
 *
 *   tllm_rules_file(ctx, file, 4, &rules);               of each tensor of a GGUF or safetensors file
 *   tllm_rules_dim(rules, i)                             0: its rows are cut, 1: its columns, -1: whole on each rank
 *   tllm_rules_close(ctx, rules);
 *
 * A matrix has the dims (in, out): 1 splits what comes out, 0 what goes in, so that its results are sums over ranks. An
 * embedding has (vocabulary, width). No table of known architectures is used. llm/dist/shard.h says what such a plan
 * costs, and executes it. */
#ifndef TINYI_RULES_H
#define TINYI_RULES_H
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_rule_tensor {
    /* parts between '.' or '/'. The last one is "kernel" for a matrix, "embedding" for an embedding; all others stay
     * whole */
    const char *path;
    int rank;
    uint64_t dim[TLLM_MAX_RANK];
    uint64_t part[3];                       /* several matrices side by side (q, k, v): columns of each; else 0 */
} tllm_rule_tensor;

typedef struct tllm_rule {
    tllm_text key;                          /* the last part of the path, or the last two of a matrix */
    int dim;                                /* -1: whole */
    size_t n_tensors;                       /* that share it */
    const char *why;                        /* one sentence */
} tllm_rule;

typedef struct tllm_rules tllm_rules;
/* The paths are copied. n_ranks 1: everything stays whole. */
TINY_API tiny_status tllm_rules_make(tiny_ctx *ctx, const tllm_rule_tensor *tensor, size_t n, int n_ranks,
                                     tllm_rules **out);
/* Tensor i is tensor i of the file. q, k and v in one matrix are cut by heads where the file has their number. */
TINY_API tiny_status tllm_rules_file(tiny_ctx *ctx, const tllm_gguf *file, int n_ranks, tllm_rules **out);
TINY_API void tllm_rules_close(tiny_ctx *ctx, tllm_rules *rules);          /* takes NULL */

TINY_API int tllm_rules_ranks(const tllm_rules *rules);                    /* 1 for NULL */
TINY_API size_t tllm_rules_tensors(const tllm_rules *rules);
TINY_API const tllm_rule_tensor *tllm_rules_tensor(const tllm_rules *rules, size_t i);         /* NULL past the end */
TINY_API int tllm_rules_dim(const tllm_rules *rules, size_t i);            /* -1 past the end */
TINY_API size_t tllm_rules_count(const tllm_rules *rules);
TINY_API const tllm_rule *tllm_rules_at(const tllm_rules *rules, size_t k);        /* by key; NULL past the end */
/* The rule of a tensor that goes with tensor i, as a moment of an optimizer does: the same dim if it has the same
 * shape, else -1. */
TINY_API int tllm_rules_like(const tllm_rules *rules, size_t i, int rank, const uint64_t *dim);
/* A plan by hand: changes the rule of tensor i alone. */
TINY_API tiny_status tllm_rules_set(tiny_ctx *ctx, tllm_rules *rules, size_t i, int dim);

/* The path of a tensor named as files do: "blk.3.attn_q.weight" is "blk.3.attn.q.kernel". Returns its length; writes at
 * most room bytes, terminated. */
TINY_API size_t tllm_rules_path(tllm_text name, int rank, char *to, size_t room);

/* ---- inside: what the bodies share ---- */

/* a number of the file's architecture: name "block_count" is "llama.block_count". 0: the file does not have it */
TINYI_FN int tinyi_rule_number(const tllm_gguf *g, const char *name, uint64_t *n);
/* heads and key heads, 1 to 65536; 0: the file does not say, or they are invalid */
TINYI_FN int tinyi_rule_heads(const tllm_gguf *g, uint64_t *heads, uint64_t *kv);
/* Does this matrix blk.N.ffn_up hold gate and up? Then the matrix after it takes half of what comes out. */
TINYI_FN int tinyi_rule_halves(const tllm_gguf *g, const tllm_gguf_tensor *up);

TINYI_C_END
#endif
