/* bench/llm/rules.c - Redco's rules on the shapes of six published models: bytes a token against a plan by hand
 *
 * Nothing is sent: tests/llm/dist/rules.c shows that a plan sends what it costs. Baseline: the plan that a person makes
 * for each of these architectures (Megatron-LM). The time is that of reading names and shapes and of the checker. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BU_RANKS = 8, BU_TENSORS = 600, BU_NODES = 900 };
typedef struct bu_model {
    const char *name;
    uint64_t d, ff, vocab;
    int layers, heads, gated;
    const char *q, *k, *v, *o, *gate, *up, *down, *head;        /* k NULL: q holds all three; head NULL: tied */
} bu_model;
static const bu_model bu_models[] = {
    { "LLaMA 7B", 4096, 11008, 32000, 32, 32, 1, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
      "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "lm_head" },
    { "GPT-J 6B", 4096, 16384, 50400, 28, 16, 0, "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj", NULL,
      "mlp.fc_in", "mlp.fc_out", "lm_head" },
    { "T5 11B, encoder", 1024, 65536, 32128, 24, 128, 0, "SelfAttention.q", "SelfAttention.k", "SelfAttention.v",
      "SelfAttention.o", NULL, "DenseReluDense.wi", "DenseReluDense.wo", "lm_head" },
    { "OPT 66B", 9216, 36864, 50272, 64, 72, 0, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
      "self_attn.out_proj", NULL, "fc1", "fc2", "lm_head" },
    { "GPT-NeoX 20B", 6144, 24576, 50432, 44, 64, 0, "attention.query_key_value", NULL, NULL, "attention.dense", NULL,
      "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "embed_out" },
    { "GPT-2 XL", 1600, 6400, 50257, 48, 25, 0, "attn.c_attn", NULL, NULL, "attn.c_proj", NULL, "mlp.c_fc",
      "mlp.c_proj", NULL } };

static tllm_rule_tensor bu_tensor[BU_TENSORS];
static tllm_shard_node bu_node[BU_NODES];
static char bu_path[BU_TENSORS][64];
static size_t bu_n_tensors, bu_n_nodes;

static int bu_add(int kind, int a, int b, int c, size_t tensor, int heads)
{
    tllm_shard_node *n = &bu_node[bu_n_nodes];
    n->kind = kind;
    n->in[0] = a;
    n->in[1] = b;
    n->in[2] = c;
    n->tensor = tensor;
    n->heads = n->kv_heads = heads;
    return (int)bu_n_nodes++;
}
static size_t bu_matrix(const char *name, int layer, uint64_t in, uint64_t out)
{
    tllm_rule_tensor *t = &bu_tensor[bu_n_tensors];
    memset(t, 0, sizeof *t);
    if (layer < 0) (void)snprintf(bu_path[bu_n_tensors], sizeof bu_path[0], "%s", name);
    else (void)snprintf(bu_path[bu_n_tensors], sizeof bu_path[0], "layers.%d.%s.kernel", layer, name);
    t->path = bu_path[bu_n_tensors];
    t->rank = 2;
    t->dim[0] = in;
    t->dim[1] = out;
    return bu_n_tensors++;
}
static int bu_times(int x, const char *name, int layer, uint64_t in, uint64_t out)
{
    return bu_add(TLLM_SHARD_MATMUL, x, -1, -1, bu_matrix(name, layer, in, out), 0);
}
static void bu_build(const bu_model *m)
{
    char head[40];
    int l, x;
    bu_n_tensors = bu_n_nodes = 0;
    x = bu_add(TLLM_SHARD_LOOKUP, -1, -1, -1, bu_matrix("embed.embedding", -1, m->vocab, m->d), 0);
    for (l = 0; l < m->layers; l++) {
        /* T5: 128 heads of 128 numbers are wider than the stream */
        const uint64_t d = m->heads == 128 ? 16384 : m->d;
        int y = bu_add(TLLM_SHARD_NORM, x, -1, -1, 0, 0), q, k = -1, v = -1;
        q = bu_times(y, m->q, l, m->d, m->k ? d : 3 * d);
        if (m->k) {
            k = bu_times(y, m->k, l, m->d, d);
            v = bu_times(y, m->v, l, m->d, d);
        } else {
            uint64_t *part = bu_tensor[bu_n_tensors - 1].part;
            part[0] = part[1] = part[2] = d;
        }
        y = bu_times(bu_add(TLLM_SHARD_ATTENTION, q, k, v, 0, m->heads), m->o, l, d, m->d);
        x = bu_add(TLLM_SHARD_ADD, x, y, -1, 0, 0);
        y = bu_add(TLLM_SHARD_NORM, x, -1, -1, 0, 0);
        if (m->gated) {
            const int gate = bu_times(y, m->gate, l, m->d, m->ff);
            y = bu_add(TLLM_SHARD_GLU, gate, bu_times(y, m->up, l, m->d, m->ff), -1, 0, 0);
        } else y = bu_add(TLLM_SHARD_SILU, bu_times(y, m->up, l, m->d, m->ff), -1, -1, 0, 0);
        x = bu_add(TLLM_SHARD_ADD, x, bu_times(y, m->down, l, m->ff, m->d), -1, 0, 0);
    }
    x = bu_add(TLLM_SHARD_NORM, x, -1, -1, 0, 0);
    (void)snprintf(head, sizeof head, "%s.kernel", m->head ? m->head : "");
    (void)bu_add(TLLM_SHARD_MATMUL, x, -1, -1, m->head ? bu_matrix(head, -1, m->d, m->vocab) : 0, 0);
}

void bench_rules(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    const size_t n = sizeof bu_models / sizeof *bu_models;
    double ratio[8], longest = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        tllm_rules *rules = NULL;
        tllm_shard_cost_of found, hand;
        double start, ms;
        bu_build(&bu_models[i]);
        start = b_now();
        b_must(ctx, tllm_rules_make(ctx, bu_tensor, bu_n_tensors, BU_RANKS, &rules));
        b_must(ctx, tllm_shard_cost(ctx, rules, bu_node, bu_n_nodes, &found));
        ms = 1e3 * (b_now() - start);
        if (ms > longest) longest = ms;
        b_must(ctx, tllm_shard_by_hand(ctx, rules, bu_node, bu_n_nodes));
        b_must(ctx, tllm_shard_cost(ctx, rules, bu_node, bu_n_nodes, &hand));
        tllm_rules_close(ctx, rules);
        ratio[i] = found.bytes / hand.bytes;
        b_note("%-16s %d ranks: a rank sends %.0f KB a token (%lu sums, %lu collected), by hand %.0f KB (%lu, %lu): "
               "%.2f",
               bu_models[i].name, BU_RANKS, 1e-3 * found.bytes, (unsigned long)found.n_sums,
               (unsigned long)found.n_collected, 1e-3 * hand.bytes, (unsigned long)hand.n_sums,
               (unsigned long)hand.n_collected, ratio[i]);
    }
    b_verdict("LLaMA 7B: bytes a token, found / by hand", ratio[0], "<", 1.0001);
    b_headline("redco", "Redco: rules for GPT-J, LLaMA, T5, OPT up to 66B without a line of the user's code",
               "six shapes, 8 ranks, bytes a rank sends for a token",
               "found / by hand: LLaMA 7B %.2f, GPT-J 6B %.2f, T5 11B %.2f, OPT 66B %.2f, GPT-NeoX 20B %.2f, GPT-2 XL "
               "%.2f; at most %.1f ms for rules and check",
               ratio[0], ratio[1], ratio[2], ratio[3], ratio[4], ratio[5], longest);
    tiny_ctx_close(ctx);
}
