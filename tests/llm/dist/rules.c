/* tests/llm/dist/rules.c - rules of tensor parallelism, what they cost, and the split executed
 *
 * Truth    the rules that Redco's own program gives (tests/golden/rules.tsv); the worked examples of the paper's
 *          description; the same graph in double on one rank, written out here; the counts of the transport. */
#include "llm/dist/graph.h"

enum { RANKS = 4, MOST = 64, TOKENS = 5, D = 16, FF = 32, HEADS = 4, LAYERS = 2 };

/* ---- rules ------------------------------------------------------------------------------------------------------- */

typedef struct row { char name[24], path[80]; int ranks, dim, rank; uint64_t dims[TLLM_MAX_RANK]; } row;

static int same_rules(tiny_ctx *ctx, const row *r, size_t n)
{
    tllm_rule_tensor t[MOST];
    tllm_rules *rules = NULL;
    size_t i, wrong = 0;
    memset(t, 0, sizeof t);
    for (i = 0; i < n; i++) {
        t[i].path = r[i].path;
        t[i].rank = r[i].rank;
        memcpy(t[i].dim, r[i].dims, sizeof t[i].dim);
    }
    if (!T_OK(tllm_rules_make(ctx, t, n, r->ranks, &rules))) return 0;
    for (i = 0; i < n; i++)
        if (!T_EQ_INT(tllm_rules_dim(rules, i), r[i].dim)) {
            printf("  %s, %d ranks: %s\n", r->name, r->ranks, r[i].path);
            wrong++;
        }
    T_EQ_INT(tllm_rules_tensors(rules), n);
    tllm_rules_close(ctx, rules);
    return !wrong;
}
static void test_redco(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    FILE *f = fopen("tests/golden/rules.tsv", "r");
    static row r[MOST], next;
    char line[300], dims[60];
    size_t n = 0, cases = 0;
    if (!T_TRUE(f != NULL)) return;
    for (;;) {
        const int more = fgets(line, sizeof line, f) != NULL;
        char *at = dims;
        if (more && *line == '#') continue;
        memset(&next, 0, sizeof next);
        if (more && sscanf(line, "%23s %d %79s %59s %d", next.name, &next.ranks, next.path, dims, &next.dim) != 5)
            break;
        if (n && (!more || strcmp(next.name, r->name) || next.ranks != r->ranks)) {
            same_rules(ctx, r, n);
            cases++;
            n = 0;
        }
        if (!more) break;
        while (*at && next.rank < TLLM_MAX_RANK) {
            next.dims[next.rank++] = (uint64_t)strtoul(at, &at, 10);
            at += *at == 'x';
        }
        if (n < MOST) r[n++] = next;
    }
    (void)fclose(f);
    T_TRUE(cases > 50);
    t_close(ctx);
    T_PROOF("distributed 4", "the rules are those of the authors' program: six architectures, fifty random trees");
}

static int dim_of(tiny_ctx *ctx, const char *path, uint64_t in, uint64_t out, int n)
{
    tllm_rule_tensor t;
    tllm_rules *rules = NULL;
    int dim;
    memset(&t, 0, sizeof t);
    t.path = path;
    t.rank = 2;
    t.dim[0] = in;
    t.dim[1] = out;
    T_OK(tllm_rules_make(ctx, &t, 1, n, &rules));
    dim = tllm_rules_dim(rules, 0);
    tllm_rules_close(ctx, rules);
    return dim;
}
static void test_worked(void)
{
    static const row gpt2[] = { { "gpt2", "h.0.attn.c_attn.kernel", 4, 1, 2, { 64, 192 } },
                                { "gpt2", "h.0.attn.c_proj.kernel", 4, 1, 2, { 64, 64 } },
                                { "gpt2", "h.0.mlp.c_fc.kernel", 4, 0, 2, { 64, 256 } },
                                { "gpt2", "h.0.mlp.c_proj.kernel", 4, 1, 2, { 256, 64 } } },
                     neox[] = { { "neox", "0.attention.query_key_value.kernel", 4, 1, 2, { 64, 192 } },
                                { "neox", "0.attention.dense.kernel", 4, 1, 2, { 64, 64 } },
                                { "neox", "0.mlp.fc1.kernel", 4, 0, 2, { 64, 256 } },
                                { "neox", "0.mlp.fc2.kernel", 4, 1, 2, { 256, 64 } } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    T_EQ_INT(dim_of(ctx, "0.self_attn.q_proj.kernel", 64, 64, 4), 1);
    T_EQ_INT(dim_of(ctx, "0.self_attn.o_proj.kernel", 64, 64, 4), 0);
    T_EQ_INT(dim_of(ctx, "0/mlp/gate_proj/kernel", 64, 96, 4), 1);
    T_EQ_INT(dim_of(ctx, "0.mlp.down_proj.kernel", 96, 64, 4), 0);
    T_EQ_INT(dim_of(ctx, "embed_tokens.embedding", 255, 64, 4), 1);
    T_EQ_INT(dim_of(ctx, "lm_head.kernel", 64, 255, 4), 0);
    T_EQ_INT(dim_of(ctx, "norm.scale", 64, 64, 4), -1);
    same_rules(ctx, gpt2, 4);
    same_rules(ctx, neox, 4);
    T_EQ_INT(dim_of(ctx, "0.self_attn.q_proj.kernel", 64, 64, 1), -1);
    T_EQ_INT(dim_of(ctx, "0.self_attn.q_proj.kernel", 48, 48, 64), -1);
    t_close(ctx);
    T_PROOF("distributed 4", "worked rules of Llama, GPT-2 and fused names; n = 1 and n larger than every dimension");
}

/* Each name that decides gives the same dimension alone and after a key that took the last one; and a key after it is
 * cut as if it were not there. */
static void test_deciding(void)
{
    static const struct { const char *path; int dim; } of[] = {
        { "mlp.up_x.kernel", 1 },  { "mlp.gate.kernel", 1 },   { "mlp.wi_0.kernel", 1 },    { "mlp.fc_in.kernel", 1 },
        { "mlp.down.kernel", 0 },  { "mlp.wo_1.kernel", 0 },   { "mlp.out_2.kernel", 0 },   { "x.head_a.kernel", 1 },
        { "x.lm_head.kernel", 1 }, { "attn.k_proj.kernel", 1 }, { "attn.my_v.kernel", 1 },   { "attn.o_x.kernel", 0 },
        { "attn.to.kernel", 0 },   { "x.embedding", 0 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_rule_tensor t[3];
    tllm_rules *rules = NULL;
    size_t i;
    int k;
    memset(t, 0, sizeof t);
    for (k = 0; k < 3; k++) {
        t[k].rank = 2;
        t[k].dim[0] = 8;
        t[k].dim[1] = 12;
    }
    for (i = 0; i < T_COUNT(of); i++) {
        T_EQ_INT(dim_of(ctx, of[i].path, 8, 12, 4), of[i].dim);
        t[0].path = "x.aaa.kernel";
        t[1].path = of[i].path;
        T_OK(tllm_rules_make(ctx, t, 2, 4, &rules));
        T_EQ_INT(tllm_rules_dim(rules, 0), 1);
        if (!T_EQ_INT(tllm_rules_dim(rules, 1), of[i].dim)) printf("  %s\n", of[i].path);
        tllm_rules_close(ctx, rules);
        t[0].path = "x.zzz.kernel";
        T_OK(tllm_rules_make(ctx, t, 2, 4, &rules));
        if (!T_EQ_INT(tllm_rules_dim(rules, 0), 1)) printf("  after %s\n", of[i].path);
        tllm_rules_close(ctx, rules);
    }
    /* one key with tensors of different rank stays whole, whichever is first */
    for (k = 0; k < 2; k++) {
        t[0].path = "a.w.kernel";
        t[1].path = "b.w.kernel";
        t[k].rank = 3;
        t[k].dim[2] = 4;
        T_OK(tllm_rules_make(ctx, t, 2, 4, &rules));
        T_EQ_INT(tllm_rules_dim(rules, 0), -1);
        T_EQ_INT(tllm_rules_dim(rules, 1), -1);
        t[k].rank = 2;
        tllm_rules_close(ctx, rules);
    }
    /* 4 divides the 24 columns of q, k and v together, but not the 2 of k */
    t[0].path = "attn.qkv.kernel";
    t[0].dim[1] = 24;
    t[0].part[0] = 20;
    t[0].part[1] = t[0].part[2] = 2;
    T_OK(tllm_rules_make(ctx, t, 1, 4, &rules));
    T_EQ_INT(tllm_rules_dim(rules, 0), 0);
    tllm_rules_close(ctx, rules);
    t_close(ctx);
    T_PROOF("distributed 4", "names decide whatever is before them, and do not count for the names after them");
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static const int32_t token[TOKENS] = { 3, 0, 17, 8, 3 };

static size_t tensor(arch *a, const char *path, int layer, uint64_t in, uint64_t out)
{
    tllm_rule_tensor *t = &a->t[a->n];
    if (layer < 0) (void)snprintf(a->path[a->n], sizeof a->path[0], "%s", path);
    else (void)snprintf(a->path[a->n], sizeof a->path[0], "layers.%d.%s", layer, path);
    memset(t, 0, sizeof *t);
    t->path = a->path[a->n];
    t->rank = 2;
    t->dim[0] = in;
    t->dim[1] = out;
    a->weight[a->n] = t_rand((size_t)(in * out), -0.4f, 0.4f);
    return a->n++;
}
static int node(arch *a, int kind, int x, int y, int z, size_t t)
{
    tllm_shard_node *n = &a->node[a->n_nodes];
    memset(n, 0, sizeof *n);
    n->kind = kind;
    n->in[0] = x;
    n->in[1] = y;
    n->in[2] = z;
    n->tensor = t;
    n->heads = a->heads;
    n->kv_heads = a->kv;
    return (int)a->n_nodes++;
}
static int times(arch *a, int x, const char *path, int layer, uint64_t in, uint64_t out)
{
    return node(a, TLLM_SHARD_MATMUL, x, -1, -1, tensor(a, path, layer, in, out));
}

enum { LLAMA, GPT2, OPT, GPTJ, T5, NEOX, ARCHS };
static void build(arch *a, int kind, int vocab, int kv)
{
    static const char *const name[] = { "Llama", "GPT-2", "OPT", "GPT-J", "T5", "GPT-NeoX" };
    static const char *const attn[ARCHS][4] = {
        { "attn.q_proj.kernel", "attn.k_proj.kernel", "attn.v_proj.kernel", "attn.o_proj.kernel" },
        { "attn.c_attn.kernel", NULL, NULL, "attn.c_proj.kernel" },
        { "attn.q_proj.kernel", "attn.k_proj.kernel", "attn.v_proj.kernel", "attn.out_proj.kernel" },
        { "attn.q_proj.kernel", "attn.k_proj.kernel", "attn.v_proj.kernel", "attn.out_proj.kernel" },
        { "SelfAttention.q.kernel", "SelfAttention.k.kernel", "SelfAttention.v.kernel", "SelfAttention.o.kernel" },
        { "attention.query_key_value.kernel", NULL, NULL, "attention.dense.kernel" } };
    static const char *const net[ARCHS][2] = { { "mlp.up_proj.kernel", "mlp.down_proj.kernel" },
                                               { "mlp.c_fc.kernel", "mlp.c_proj.kernel" },
                                               { "fc1.kernel", "fc2.kernel" },
                                               { "mlp.fc_in.kernel", "mlp.fc_out.kernel" },
                                               { "DenseReluDense.wi.kernel", "DenseReluDense.wo.kernel" },
                                               { "mlp.fc1.kernel", "mlp.fc2.kernel" } };
    const uint64_t d_kv = (uint64_t)(D / HEADS * kv);
    int l, x;
    memset(a, 0, sizeof *a);
    a->name = name[kind];
    a->d = D;
    a->heads = HEADS;
    a->token = token;
    a->n_tokens = TOKENS;
    a->kv = kv;
    a->vocab = vocab;
    x = node(a, TLLM_SHARD_LOOKUP, -1, -1, -1, tensor(a, "embed.embedding", -1, (uint64_t)vocab, D));
    for (l = 0; l < LAYERS; l++) {
        int y = node(a, TLLM_SHARD_NORM, x, -1, -1, 0), q, k = -1, v = -1;
        q = times(a, y, attn[kind][0], l, D, attn[kind][1] ? D : D + 2 * d_kv);
        if (attn[kind][1]) {
            k = times(a, y, attn[kind][1], l, D, d_kv);
            v = times(a, y, attn[kind][2], l, D, d_kv);
        } else {
            uint64_t *part = a->t[a->n - 1].part;
            part[0] = D;
            part[1] = part[2] = d_kv;
        }
        y = node(a, TLLM_SHARD_ATTENTION, q, k, v, 0);
        x = node(a, TLLM_SHARD_ADD, x, times(a, y, attn[kind][3], l, D, D), -1, 0);
        y = node(a, TLLM_SHARD_NORM, x, -1, -1, 0);
        if (kind == LLAMA) {
            const int gate = times(a, y, "mlp.gate_proj.kernel", l, D, FF);
            y = node(a, TLLM_SHARD_GLU, gate, times(a, y, net[kind][0], l, D, FF), -1, 0);
        } else y = node(a, TLLM_SHARD_SILU, times(a, y, net[kind][0], l, D, FF), -1, -1, 0);
        x = node(a, TLLM_SHARD_ADD, x, times(a, y, net[kind][1], l, FF, D), -1, 0);
    }
    x = node(a, TLLM_SHARD_NORM, x, -1, -1, 0);
    if (kind == GPT2) (void)node(a, TLLM_SHARD_MATMUL, x, -1, -1, 0);   /* tied */
    else (void)times(a, x, kind == NEOX ? "embed_out.kernel" : "lm_head.kernel", -1, D, (uint64_t)vocab);
}

static void test_executed(void)
{
    int kind, n, again, vocab;
    for (kind = 0; kind < ARCHS; kind++)
        for (n = 1; n <= RANKS; n *= 2)
            for (vocab = 24; vocab >= 23; vocab--) {
                tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
                static arch a;
                tllm_rules *rules = NULL;
                const double *want;
                size_t width = 0, i;
                build(&a, kind, vocab, kind % 2 || n == 4 ? HEADS : 2);
                want = by_hand(&a, &width);
                if (!T_OK(tllm_rules_make(ctx, a.t, a.n, n, &rules))) return;
                executes(ctx, &a, rules, want, width, 1e-4, 0);
                if (vocab == 24 && n > 1) executes(ctx, &a, rules, want, width, 1e-4, 1);
                T_OK(tllm_shard_by_hand(ctx, rules, a.node, a.n_nodes));
                executes(ctx, &a, rules, want, width, 1e-4, 0);
                /* any plan at all */
                for (again = 0; again < 2 && n > 1 && vocab == 24; again++) {
                    for (i = 0; i < a.n; i++) (void)tllm_rules_set(ctx, rules, i, (int)t_rand_below(3) - 1);
                    executes(ctx, &a, rules, want, width, 1e-4, 0);
                }
                /* q, k and v cut through, as the authors' rules do */
                for (i = 0; i < a.n; i++) memset(a.t[i].part, 0, sizeof a.t[i].part);
                tllm_rules_close(ctx, rules);
                if (vocab == 24 && T_OK(tllm_rules_make(ctx, a.t, a.n, n, &rules))) {
                    executes(ctx, &a, rules, want, width, 1e-4, 0);
                    tllm_rules_close(ctx, rules);
                }
                t_close(ctx);
                t_free_blocks();
            }
    T_PROOF("distributed 4", "any rule set lowered and executed gives the logits of one rank to 1e-4");
    T_PROOF("distributed 4", "the plans that were found, executed over TCP");
    T_PROOF("distributed 4", "the bytes that ranks send are those of the cost");
}

/* Values that are cut inside several parts: where the next layer cannot take them, they are collected; where it can,
 * they are not. */
static void test_parts(void)
{
    enum { SILU_ROWS, HALVES, THREE, UNEQUAL, TWO, MIXED, GRAPHS };
    static const struct { uint64_t part[3]; int collected; } of[GRAPHS] = {
        { { 8, 16, 8 }, 1 }, { { 16, 16, 0 }, 0 }, { { 8, 8, 16 }, 1 }, { { 8, 24, 0 }, 1 }, { { 8, 24, 0 }, 2 },
        { { 16, 16, 0 }, 2 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind, n;
    for (kind = 0; kind < GRAPHS; kind++)
        for (n = 2; n <= RANKS; n *= 2) {
            static arch a;
            tllm_rules *rules = NULL;
            tllm_shard_cost_of cost;
            const double *want;
            size_t width = 0, fused, i;
            int x, y, z;
            memset(&a, 0, sizeof a);
            a.name = "parts";
            a.d = D;
            a.heads = HEADS;
            a.token = token;
            a.n_tokens = TOKENS;
            a.vocab = 24;
            a.kv = HEADS;
            x = node(&a, TLLM_SHARD_LOOKUP, -1, -1, -1, tensor(&a, "embed.embedding", -1, 24, D));
            fused = a.n;
            y = times(&a, x, "fused.kernel", 0, D, 32);
            memcpy(a.t[fused].part, of[kind].part, sizeof a.t[fused].part);
            if (kind == SILU_ROWS) y = node(&a, TLLM_SHARD_SILU, y, -1, -1, 0);
            else if (kind < TWO) y = node(&a, TLLM_SHARD_GLU, y, -1, -1, 0);
            else {                          /* two values that are cut in different ways */
                z = times(&a, x, "other.kernel", 0, D, 32);
                y = node(&a, kind == TWO ? TLLM_SHARD_GLU : TLLM_SHARD_ADD, y, z, -1, 0);
            }
            (void)times(&a, y, "next.kernel", 0, kind == SILU_ROWS || kind >= TWO ? 32 : 16, D);
            want = by_hand(&a, &width);
            T_OK(tllm_rules_make(ctx, a.t, a.n, n, &rules));
            T_OK(tllm_rules_set(ctx, rules, 0, -1));
            for (i = 1; i < a.n; i++) T_OK(tllm_rules_set(ctx, rules, i, i + 1 < a.n));
            T_OK(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &cost));
            if (!T_EQ_INT(cost.n_collected, of[kind].collected)) printf("  graph %d\n", kind);
            T_EQ_INT(cost.n_sums, 1);
            executes(ctx, &a, rules, want, width, 1e-4, 0);
            tllm_rules_close(ctx, rules);
            t_use(ctx);
        }
    t_close(ctx);
    t_free_blocks();
}

static void test_costs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind;
    for (kind = 0; kind < ARCHS; kind++) {
        static arch a;
        tllm_rules *rules = NULL;
        tllm_shard_cost_of found, hand;
        build(&a, kind, 24, HEADS);
        if (!T_OK(tllm_rules_make(ctx, a.t, a.n, 4, &rules))) return;
        T_OK(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &found));
        T_OK(tllm_shard_by_hand(ctx, rules, a.node, a.n_nodes));
        T_OK(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &hand));
        /* by hand: a sum after the lookup, after each attention and each network, of D floats over a ring of 4 */
        T_EQ_INT(hand.n_sums, 1 + 2 * LAYERS);
        T_EQ_INT(hand.n_collected, 0);
        T_CLOSE(hand.bytes, (1 + 2 * LAYERS) * 1.5 * 4 * D, 1e-9);
        if (kind == GPT2 || kind == NEOX) T_TRUE(found.bytes > 1.2 * hand.bytes);
        else if (kind != OPT) T_CLOSE(found.bytes, hand.bytes, 1e-9);
        tllm_rules_close(ctx, rules);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("distributed 4", "GPT-2 names: the checker reports more bytes than for the plan by hand");
}

static void test_names(void)
{
    static const struct { const char *name; int rank; const char *path; } of[] = {
        { "blk.3.attn_q.weight", 2, "blk.3.attn.q.kernel" },
        { "blk.3.attn_qkv.weight", 2, "blk.3.attn.qkv.kernel" },
        { "blk.12.attn_output.weight", 2, "blk.12.attn.o.kernel" },
        { "blk.0.attn_q_norm.weight", 1, "blk.0.attn.q_norm.weight" },
        { "blk.0.ffn_down.weight", 2, "blk.0.ffn.down.kernel" },
        { "blk.0.ffn_up.bias", 1, "blk.0.ffn.up.bias" },
        { "token_embd.weight", 2, "embedding" },
        { "output.weight", 2, "head.kernel" },
        { "output_norm.weight", 1, "output_norm.weight" },
        { "model.layers.0.self_attn.q_proj.weight", 2, "model.layers.0.self_attn.q_proj.kernel" },
        { "model.embed_tokens.weight", 2, "model.embed_tokens.embedding" },
        { "transformer.wte.weight", 2, "transformer.wte.embedding" },
        { "transformer.wpe.weight", 2, "transformer.wpe.embedding" },
        { "shared.weight", 2, "shared.embedding" },
        { "lm_head.weight", 2, "lm_head.kernel" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_rules *rules = NULL;
    static tllm_shard_node nodes[200];
    tllm_shard_cost_of found, hand;
    uint64_t dim[2] = { 256, 256 };
    char path[100], few[6];
    size_t i, n = 0, q = 0;
    for (i = 0; i < T_COUNT(of); i++) {
        tllm_text text;
        text.at = of[i].name;
        text.n = strlen(of[i].name);
        T_EQ_INT(tllm_rules_path(text, of[i].rank, path, sizeof path), strlen(of[i].path));
        T_EQ_TEXT(path, of[i].path);
        T_EQ_INT(tllm_rules_path(text, of[i].rank, few, sizeof few), strlen(of[i].path));
        T_EQ_INT(strlen(few), 5);
    }
    if (!T_OK(tllm_file_open(ctx, "examples/models/story.gguf", &g))) return;
    T_OK(tllm_rules_file(ctx, g, 2, &rules));
    T_EQ_INT(tllm_rules_tensors(rules), tllm_gguf_n_tensors(g));
    for (i = 0; i < tllm_rules_tensors(rules); i++)
        if (strstr(tllm_rules_tensor(rules, i)->path, "0.attn.q.kernel")) q = i;
    T_EQ_INT(tllm_rules_dim(rules, q), 1);
    T_EQ_INT(tllm_rules_like(rules, q, 2, dim), 1);
    dim[1] = 255;
    T_EQ_INT(tllm_rules_like(rules, q, 2, dim), -1);
    T_EQ_INT(tllm_rules_like(rules, q, 1, dim), -1);
    for (i = 0; i < tllm_rules_count(rules); i++) T_TRUE(strlen(tllm_rules_at(rules, i)->why) > 5);
    T_TRUE(!tllm_rules_at(rules, i) && tllm_rules_dim(rules, 99999) == -1 && !tllm_rules_tensor(rules, 99999));
    T_OK(tllm_shard_graph(ctx, g, nodes, T_COUNT(nodes), &n));
    T_OK(tllm_shard_cost(ctx, rules, nodes, n, &found));
    T_OK(tllm_shard_by_hand(ctx, rules, nodes, n));
    T_OK(tllm_shard_cost(ctx, rules, nodes, n, &hand));
    T_CLOSE(found.bytes, hand.bytes, 1e-9);
    T_EQ_INT(hand.n_sums, 1 + 2 * 4);
    T_STATUS(tllm_shard_graph(ctx, g, nodes, 7, &n), TINY_E_WORKSPACE, "more than 7 nodes");
    tllm_rules_close(ctx, rules);
    tllm_gguf_close(ctx, g);
    if (!T_OK(tllm_file_open(ctx, "examples/models/story-gla.gguf", &g))) return;
    T_OK(tllm_rules_file(ctx, g, 2, &rules));
    T_STATUS(tllm_shard_graph(ctx, g, nodes, T_COUNT(nodes), &n), TINY_E_UNSUPPORTED, "its graph is not known");
    tllm_rules_close(ctx, rules);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
    T_PROOF("distributed 4", "tensors of an optimizer inherit the rule by their shape");
}

/* q, k and v in one matrix of a file, and gate and up in another: cut inside each of them, where the file says how */
static void put(tiny_ctx *ctx, tllm_writer *w, const char *name, uint64_t in, uint64_t out)
{
    const uint64_t dim[2] = { in, out };
    tllm_text text;
    text.at = name;
    text.n = strlen(name);
    T_OK(tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, 2, dim, t_rand((size_t)(in * out), -1.0f, 1.0f)));
}
static void test_fused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int with_heads;
    for (with_heads = 1; with_heads >= 0; with_heads--) {
        tllm_writer_desc wd;
        tllm_writer *w = NULL;
        tllm_gguf *g = NULL;
        tllm_rules *rules = NULL;
        tllm_shard_node nodes[20];
        tllm_shard_cost_of cost;
        const void *at;
        size_t n = 0, bytes;
        memset(&wd, 0, sizeof wd);
        if (!T_OK(tllm_writer_open(ctx, &wd, &w))) return;
        T_OK(tllm_writer_put_text(ctx, w, "general.architecture", "phi3"));
        T_OK(tllm_writer_put_u32(ctx, w, "phi3.block_count", 1));
        if (with_heads) T_OK(tllm_writer_put_u32(ctx, w, "phi3.attention.head_count", 4));
        if (with_heads) T_OK(tllm_writer_put_u32(ctx, w, "phi3.attention.head_count_kv", 2));
        put(ctx, w, "token_embd.weight", D, 24);
        put(ctx, w, "blk.0.attn_qkv.weight", D, D + 16);
        put(ctx, w, "blk.0.attn_output.weight", D, D);
        put(ctx, w, "blk.0.ffn_up.weight", D, 2 * FF);
        put(ctx, w, "blk.0.ffn_down.weight", FF, D);
        T_OK(tllm_writer_finish(ctx, w));
        at = tllm_writer_memory(w, &bytes);
        if (!T_OK(tllm_file_open_memory(ctx, at, bytes, &g))) return;
        T_OK(tllm_rules_file(ctx, g, 2, &rules));
        T_EQ_INT(tllm_rules_tensor(rules, 1)->part[0], with_heads ? D : 0);
        T_EQ_INT(tllm_rules_tensor(rules, 1)->part[2], with_heads ? 8 : 0);
        T_EQ_INT(tllm_rules_tensor(rules, 3)->part[1], FF);
        T_EQ_INT(tllm_rules_tensor(rules, 0)->dim[0], 24);
        T_EQ_INT(tllm_rules_dim(rules, 1), 1);
        T_EQ_INT(tllm_rules_dim(rules, 2), 0);
        T_EQ_INT(tllm_rules_dim(rules, 3), 1);
        if (with_heads && T_OK(tllm_shard_graph(ctx, g, nodes, T_COUNT(nodes), &n))) {
            T_OK(tllm_shard_cost(ctx, rules, nodes, n, &cost));
            T_EQ_INT(cost.n_sums, 3);
            T_EQ_INT(cost.n_collected, 0);
        } else T_STATUS(tllm_shard_graph(ctx, g, nodes, T_COUNT(nodes), &n), TINY_E_UNSUPPORTED, "is not known");
        tllm_rules_close(ctx, rules);
        tllm_gguf_close(ctx, g);
        tllm_writer_close(ctx, w);
    }
    t_close(ctx);
    T_PROOF("distributed 4", "q, k and v in one matrix are split inside each part by heads");
}

static void test_bad_calls(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static arch a;
    tllm_rule_tensor t;
    tllm_rules *rules = NULL;
    tllm_shard_cost_of cost;
    tllm_shard_desc d;
    tiny_local_desc ld;
    tiny_local *local = NULL;
    tiny_coll c;
    float x[4];
    size_t at, size;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    memset(&ld, 0, sizeof ld);
    T_STATUS(tllm_rules_make(ctx, NULL, 1, 2, &rules), TINY_E_ARGUMENT, "at least one tensor");
    t.path = "";
    t.rank = 2;
    t.dim[0] = 8;
    t.dim[1] = 12;
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_ARGUMENT, "tensor 0: the path \"\" has an empty part");
    t.path = "a..kernel";
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_ARGUMENT, "\"a..kernel\" has an empty part");
    t.path = "a.kernel";
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, NULL), TINY_E_ARGUMENT, "output pointer");
    T_STATUS(tllm_rules_make(ctx, &t, 1, 0, &rules), TINY_E_ARGUMENT, "0 ranks");
    T_STATUS(tllm_rules_make(ctx, &t, 1, 65, &rules), TINY_E_ARGUMENT, "65 ranks");
    t.part[0] = 4;
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_SHAPE, "parts of 4, 0 and 0 columns, the matrix has 12");
    t.part[0] = t.part[1] = (uint64_t)1 << 63;          /* their sum is 12 in 64 bits */
    t.part[2] = 12;
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_SHAPE, "and 12 columns, the matrix has 12");
    t.part[0] = t.part[1] = 0;
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_SHAPE, "parts of 0, 0 and 12 columns");
    t.part[2] = 0;
    t.dim[0] = 0;
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_SHAPE, "a.kernel: dimension 0 is 0");
    t.rank = 7;
    T_STATUS(tllm_rules_make(ctx, &t, 1, 2, &rules), TINY_E_SHAPE, "rank 7");
    T_STATUS(tllm_rules_file(ctx, NULL, 2, &rules), TINY_E_ARGUMENT, "needs a file");
    T_TRUE(!rules);
    build(&a, LLAMA, 24, HEADS);
    T_OK(tllm_rules_make(ctx, a.t, a.n, 4, &rules));
    T_STATUS(tllm_rules_set(ctx, rules, 999, 0), TINY_E_ARGUMENT, "no tensor 999");
    T_STATUS(tllm_rules_set(ctx, rules, 0, 2), TINY_E_ARGUMENT, "dimension 2 of 2");
    T_STATUS(tllm_shard_cost(ctx, rules, a.node, 0, &cost), TINY_E_ARGUMENT, "a graph of 1 to");
    T_STATUS(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, NULL), TINY_E_ARGUMENT, "room for its answer");
    a.node[5].in[0] = 7;
    T_STATUS(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &cost), TINY_E_SHAPE, "node 5 of the graph: it reads");
    a.node[5].in[0] = 0;
    a.node[5].kind = 99;
    T_STATUS(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &cost), TINY_E_SHAPE, "its kind is not known");
    T_TRUE(cost.bytes == 0);
    build(&a, LLAMA, 24, HEADS);
    a.node[2].tensor = 999;
    T_STATUS(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &cost), TINY_E_SHAPE, "no matrix");
    T_STATUS(tllm_shard_by_hand(ctx, rules, a.node, a.n_nodes), TINY_E_ARGUMENT, "no tensor 999");
    a.node[2].tensor = a.n - 2;
    T_STATUS(tllm_shard_cost(ctx, rules, a.node, a.n_nodes, &cost), TINY_E_SHAPE, "does not fit what comes in");
    T_STATUS(tllm_shard_run(ctx, &d, x, &at, &size), TINY_E_ARGUMENT, "needs rules");
    build(&a, LLAMA, 24, HEADS);
    d.rules = rules;
    d.node = a.node;
    d.n_nodes = a.n_nodes;
    d.weight = (const float *const *)a.weight;
    d.coll = &c;
    T_OK(tiny_local_open(ctx, &ld, &local));
    c.net = tiny_local_net(local, 0);
    T_STATUS(tllm_shard_run(ctx, &d, x, &at, &size), TINY_E_ARGUMENT, "for 4 ranks, there are 1");
    tllm_rules_close(ctx, rules);
    T_OK(tllm_rules_make(ctx, a.t, a.n, 1, &rules));
    d.rules = rules;
    T_OK(tllm_shard_run(ctx, &d, x, &at, &size));       /* no tokens */
    {
        static float y[TOKENS * 24];
        static const int32_t odd[1] = { 24 };
        d.token = odd;
        d.n_tokens = 1;
        c.n_work = tllm_shard_work(&d);
        c.work = malloc(c.n_work);
        T_STATUS(tllm_shard_run(ctx, &d, y, &at, &size), TINY_E_ARGUMENT, "token 24, there are 24");
        a.weight[3] = NULL;
        d.token = token;
        T_STATUS(tllm_shard_run(ctx, &d, y, &at, &size), TINY_E_SHAPE, "its weights are missing");
        free(c.work);
    }
    tllm_rules_close(ctx, rules);
    tllm_rules_close(ctx, NULL);
    tiny_local_close(ctx, local);
    t_close(ctx);
    T_PROOF("distributed 4", "bad input: empty names, dimensions of 0, graphs that do not fit");
}

int main(void)
{
    T_RUN(test_redco);
    T_RUN(test_worked);
    T_RUN(test_deciding);
    T_RUN(test_executed);
    T_RUN(test_parts);
    T_RUN(test_costs);
    T_RUN(test_names);
    T_RUN(test_fused);
    T_RUN(test_bad_calls);
    return t_done();
}
