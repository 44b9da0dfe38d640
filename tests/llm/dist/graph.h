/* tests/llm/dist/graph.h - a graph of layers in double on one rank, and a plan for it executed on several ranks */
#ifndef T_GRAPH_H
#define T_GRAPH_H
#include "llm/dist/net.h"

enum { GRAPH = 64, GRAPH_TOKENS = 8 };      /* tensors, nodes; tokens, at most */

typedef struct arch {
    const char *name;
    tllm_rule_tensor t[GRAPH];
    tllm_shard_node node[GRAPH];
    float *weight[GRAPH];
    char path[GRAPH][80];
    size_t n, n_nodes, embedding;           /* embedding: its tensor; a product with it takes it turned around */
    int d, heads, kv, vocab;
    const int32_t *token;
    size_t n_tokens;
} arch;

/* the graph on one rank, in double; the result (tokens, width) */
T_FN double *by_hand(const arch *a, size_t *width)
{
    static double *value[GRAPH];
    static size_t w[GRAPH];
    size_t i, t, j, k, h, s;
    for (i = 0; i < a->n_nodes; i++) {
        const tllm_shard_node *n = &a->node[i];
        const double *x = n->in[0] >= 0 ? value[n->in[0]] : NULL, *y = n->in[1] >= 0 ? value[n->in[1]] : NULL,
                     *z = n->in[2] >= 0 ? value[n->in[2]] : NULL;
        const size_t wx = n->in[0] >= 0 ? w[n->in[0]] : 0, kv = (size_t)a->kv, all_d = (size_t)a->d,
                     d = all_d / (size_t)a->heads;
        const tllm_rule_tensor *m = &a->t[n->tensor];
        const float *weight = a->weight[n->tensor];
        const int turned = n->tensor == a->embedding;
        double *to;
        w[i] = n->kind == TLLM_SHARD_LOOKUP || n->kind == TLLM_SHARD_ATTENTION ? all_d
               : n->kind == TLLM_SHARD_MATMUL ? (size_t)m->dim[turned ? 0 : 1]
               : n->kind == TLLM_SHARD_GLU && !y ? wx / 2 : wx;
        to = value[i] = (double *)t_keep(a->n_tokens * w[i] * sizeof *to);
        for (t = 0; t < a->n_tokens; t++) {
            double *y_t = to + t * w[i], sum = 0;
            if (n->kind == TLLM_SHARD_NORM) for (j = 0; j < wx; j++) sum += x[t * wx + j] * x[t * wx + j];
            for (j = 0; j < w[i] && n->kind != TLLM_SHARD_ATTENTION; j++) {
                const double v = x ? x[t * wx + j % wx] : 0;
                y_t[j] = 0;
                if (n->kind == TLLM_SHARD_LOOKUP) y_t[j] = (double)weight[(size_t)a->token[t] * all_d + j];
                if (n->kind == TLLM_SHARD_MATMUL)
                    for (k = 0; k < wx; k++) y_t[j] += x[t * wx + k] * (double)weight[j * wx + k];
                if (n->kind == TLLM_SHARD_NORM) y_t[j] = v / sqrt(sum / (double)wx + 1e-5);
                if (n->kind == TLLM_SHARD_SILU) y_t[j] = v / (1 + exp(-v));
                if (n->kind == TLLM_SHARD_GLU)
                    y_t[j] = v / (1 + exp(-v)) * (y ? y[t * wx + j] : x[t * wx + wx / 2 + j]);
                if (n->kind == TLLM_SHARD_ADD) y_t[j] = v + y[t * wx + j];
            }
            for (h = 0; h < (size_t)a->heads && n->kind == TLLM_SHARD_ATTENTION; h++) {
                double p[GRAPH_TOKENS], all = 0;
                const size_t g = h / ((size_t)a->heads / kv);
                for (s = 0; s <= t; s++) {
                    const double *key = y ? y + s * w[n->in[1]] + g * d : x + s * wx + all_d + g * d;
                    for (p[s] = 0, k = 0; k < d; k++) p[s] += x[t * wx + h * d + k] * key[k];
                    p[s] = exp(p[s] / sqrt((double)d));
                    all += p[s];
                }
                for (k = 0; k < d; k++)
                    for (y_t[h * d + k] = 0, s = 0; s <= t; s++) {
                        const double *v = z ? z + s * w[n->in[2]] + g * d : x + s * wx + all_d + (kv + g) * d;
                        y_t[h * d + k] += p[s] / all * v[k];
                    }
            }
        }
    }
    *width = w[a->n_nodes - 1];
    return value[a->n_nodes - 1];
}

typedef struct graph_run {
    const arch *a;
    const tllm_rules *rules;
    size_t at[T_NETS], size[T_NETS];
    float *result[T_NETS];
    uint64_t bytes[T_NETS];
} graph_run;
T_FN void graph_rank(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    graph_run *run = (graph_run *)j->arg;
    tllm_shard_desc d;
    tiny_coll c;
    int r;
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    d.rules = run->rules;
    d.node = run->a->node;
    d.n_nodes = run->a->n_nodes;
    d.weight = (const float *const *)run->a->weight;
    d.token = run->a->token;
    d.n_tokens = run->a->n_tokens;
    d.coll = &c;
    c.net = net;
    c.n_work = tllm_shard_work(&d);
    c.work = malloc(c.n_work + 1);
    for (r = 0; r < net->world; r++) run->bytes[rank] -= net->count[r].bytes_sent;
    j->st[rank] = tllm_shard_run(ctx, &d, run->result[rank], &run->at[rank], &run->size[rank]);
    for (r = 0; r < net->world; r++) run->bytes[rank] += net->count[r].bytes_sent;
    free(c.work);
}

/* Executes the plan on its ranks, over threads or TCP: all columns of the result are those of `want`, (tokens, width),
 * to `bound` of its largest number, and the bytes are those of the cost. */
T_FN void executes(tiny_ctx *ctx, const arch *a, const tllm_rules *rules, const double *want, size_t width,
                   double bound, int tcp)
{
    const int n = tllm_rules_ranks(rules);
    tllm_shard_cost_of cost;
    size_t covered = 0, t, i;
    double most = 0, sent = 0;
    graph_run run;
    t_net j;
    int r, bad = 0;
    memset(&run, 0, sizeof run);
    memset(&j, 0, sizeof j);
    run.a = a;
    run.rules = rules;
    j.body = graph_rank;
    j.arg = &run;
    j.tcp = tcp;
    j.line.queue_bytes = 1 << 20;
    for (i = 0; i < a->n_tokens * width; i++) if (fabs(want[i]) > most) most = fabs(want[i]);
    for (r = 0; r < n; r++) run.result[r] = t_rand(a->n_tokens * width, 9.0f, 10.0f);
    T_OK(tllm_shard_cost(ctx, rules, a->node, a->n_nodes, &cost));
    if (!t_net_run(&j, n)) return;
    for (r = 0; r < n; r++) {
        if (!T_EQ_INT(j.st[r], TINY_OK)) { printf("  %s: rank %d: %s\n", a->name, r, j.says[r]); continue; }
        covered += run.size[r];
        sent += (double)run.bytes[r];
        for (t = 0; t < a->n_tokens; t++)
            for (i = run.at[r]; i < run.at[r] + run.size[r]; i++)
                bad += !(fabs((double)run.result[r][t * width + i] - want[t * width + i]) <= bound * most);
    }
    if (!T_EQ_INT(bad, 0)) printf("  %s, %d ranks\n", a->name, n);
    T_TRUE(covered == width || covered == (size_t)n * width);
    T_CLOSE(sent / n / (double)a->n_tokens, cost.bytes, 1e-9);
}
#endif
