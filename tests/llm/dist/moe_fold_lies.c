/* tests/llm/dist/moe_fold_lies.c - a rank of a mixture layer that claims more tokens than there can be
 *
 * Truth    the sentence, with the rank and both numbers; the bytes that the other rank takes, counted by its allocator,
 *          are those that it takes without the lie. */
#include "llm/dist/net.h"

enum { EXPERTS = 8, K = 3, WIDTH = 20, TOKENS = 64 };

typedef struct job {
    t_net net;
    tllm_moe_desc d;
    tllm_folding f;
    tiny_idx tokens[2];
    float logits[TOKENS * EXPERTS], x[TOKENS * WIDTH];
    tiny_status later[2];
    char says[2][240];
    size_t live[2], most[2];                /* bytes of a context: now, and at most */
} job;

typedef struct counting { size_t *live, *most; } counting;
static void *count_bytes(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    const counting *c = (const counting *)user;
    /* what is asked for counts too, and only that of a lie is so large */
    void *fresh = n_bytes && n_bytes < (size_t)1 << 30 ? malloc(n_bytes) : NULL;
    const size_t live = *c->live - old_bytes + n_bytes;
    if (live > *c->most) *c->most = live;
    if (n_bytes && !fresh) return NULL;
    if (fresh && old) memcpy(fresh, old, old_bytes < n_bytes ? old_bytes : n_bytes);
    free(old);
    *c->live = live;
    return fresh;
}

static void body(t_net *t, int rank, tiny_ctx *other, tiny_net *net)
{
    job *j = (job *)t->arg;
    counting c;
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tllm_moe_desc d = j->d;
    tllm_moe *moe = NULL;
    const tiny_idx *count;
    const float *rows;
    float y[TOKENS * WIDTH];
    tiny_status st;
    (void)other;
    c.live = &j->live[rank];
    c.most = &j->most[rank];
    memset(&cd, 0, sizeof cd);
    cd.n_threads = 1;
    cd.allocator.realloc_fn = count_bytes;
    cd.allocator.user = &c;
    st = tiny_ctx_open(&cd, &ctx);
    d.net = net;
    d.folding = &j->f;
    d.timeout_ns = UINT64_C(20000000000);
    if (!st) st = tllm_moe_open(ctx, &d, &moe);
    if (!st) st = tllm_moe_route(moe, j->logits, j->tokens[rank]);
    if (!st) st = tllm_moe_dispatch(moe, j->x, &rows, &count);
    if (!st) st = tllm_moe_combine(moe, rows, y);
    t->st[rank] = st;
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    if (st && moe) j->later[rank] = tllm_moe_route(moe, j->logits, 1);
    tllm_moe_close(moe);
    tiny_ctx_close(ctx);
}

/* Rank 1 changes one bit of a count, in its first message: the number of its tokens, or of its rows for each expert. */
static void test_claims(void)
{
    static const struct {
        tiny_idx most, tokens;              /* of the description, and those that rank 1 has */
        int drop, whole, word, bit;
        const char *says;
    } of[] = {
        { 0, 2, 0, 0, 0, 30, "rank 1 claims 1073741824 rows for expert 0; it gets at most 65536 from a rank" },
        { 0, 2, 0, 0, EXPERTS - 1, 17, "rank 1 claims 131072 rows for expert 7; it gets at most 65536 from a rank" },
        { 0, 2, 0, 0, 0, 63, "rows for expert 0; it gets at most 65536 from a rank" },
        { 64, 60, 0, 0, 0, 7, "rank 1 claims 128 rows for expert 0; it gets at most 64 from a rank" },
        { 64, 60, 0, 0, 0, 5, "rank 1 claims 212 rows; its 64 tokens have at most 192" },
        { 64, 60, TLLM_MOE_DROP_PROBS, 0, 0, 5, "rank 1 claims 32 rows for expert 0; it gets at most 24 from a rank" },
        { 16, 6, TLLM_MOE_DROP_PROBS, 1, 0, 30, "rank 1 claims 1073741830 tokens; a rank has at most 16" },
        { 16, 6, TLLM_MOE_DROP_POSITION, 1, 0, 4, "rank 1 claims 22 tokens; a rank has at most 16" }
    };
    size_t k, calm = 0;
    int i, lies;
    for (k = 0; k < T_COUNT(of); k++)
        for (lies = 0; lies < 2; lies++) {
            static job j;
            memset(&j, 0, sizeof j);
            for (i = 0; i < TOKENS * EXPERTS; i++)          /* expert 0 and expert 7 get no token */
                j.logits[i] = i % EXPERTS % (EXPERTS - 1) ? t_rand_float(-1.0f, 1.0f) : -9.0f;
            j.tokens[0] = 4;
            j.tokens[1] = of[k].tokens;
            j.f.ep = 2;
            j.f.dp = of[k].whole ? 1 : 2;
            j.f.tp = of[k].whole ? 2 : 1;
            j.d.n_expert = EXPERTS;
            j.d.k = K;
            j.d.width = WIDTH;
            j.d.most_tokens = of[k].most;
            j.d.drop = of[k].drop;
            j.d.whole_sequence = of[k].whole;
            j.net.body = body;
            j.net.arg = &j;
            j.net.has_fault = lies;
            j.net.fault.to = 0;
            j.net.fault.kind = TINY_FAULT_FLIP;
            j.net.fault.by = (uint64_t)(64 * of[k].word + of[k].bit);
            if (!t_net_run(&j.net, 2)) return;
            if (!lies) {
                t_net_ok(&j.net);
                calm = j.most[0];
                continue;
            }
            T_EQ_INT(j.net.st[0], TINY_E_PROTOCOL);
            T_EQ_INT(j.later[0], TINY_E_PROTOCOL);
            T_EQ_INT(j.net.st[1], TINY_E_PROTOCOL);
            if (!T_TRUE(strstr(j.says[0], of[k].says) != NULL)) printf("  \"%s\"\n", j.says[0]);
            if (!T_TRUE(j.most[0] <= calm))
                printf("  %lu bytes, %lu without the lie\n", (unsigned long)j.most[0], (unsigned long)calm);
        }
    T_PROOF("distributed 5", "bad input: a rank that claims 2^30 tokens gets no memory, and both numbers are told");
}

/* most_tokens are possible, and one more is refused before anything is sent */
static void test_most(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    const float logits[3 * EXPERTS] = { 0.0f };
    memset(&d, 0, sizeof d);
    d.n_expert = EXPERTS;
    d.k = K;
    d.width = WIDTH;
    d.most_tokens = -1;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "most_tokens is -1; it must be 0 to 2147483647");
    d.most_tokens = 2;
    if (!T_OK(tllm_moe_open(ctx, &d, &moe))) return;
    T_STATUS(tllm_moe_route(moe, logits, 3), TINY_E_ARGUMENT, "3 tokens, and most_tokens is 2");
    T_OK(tllm_moe_route(moe, logits, 2));
    tllm_moe_close(moe);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_claims);
    T_RUN(test_most);
    return t_done();
}
