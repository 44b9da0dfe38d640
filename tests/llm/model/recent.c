/* tests/llm/model/recent.c - the features of granite_swa, nanbeige, plamo3, mellum, afmoe, mimo2, step35 and laguna
 *
 * oracle.c compares their numbers with another program's, from tests/golden/oracle/llm. Here: layers that are run
 * several times over ranks, repacked, on routes and folded; gates over ranks; and files that lack or shorten the keys
 * that these rows need. */
#include "llm/model/apart.h"
#include "llm/dist/rank.h"

static const char *golden(const char *name)
{
    static char path[120];
    (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name);
    return t_shared(path);
}

/* ---- over ranks: the same numbers as whole ---- */

enum { RANKS = 2 };
typedef struct run {
    const char *path;
    int world;
    tiny_local *local;
    float *y[RANKS];
    tiny_status st[RANKS];
    char says[RANKS][300];
} run;

static void on_rank(int rank, void *arg)
{
    run *r = (run *)arg;
    tiny_comm_desc cd;
    int32_t token[TOKENS];
    t_rank m;
    int i;
    memset(&cd, 0, sizeof cd);
    cd.timeout_ns = UINT64_C(600000000000);
    cd.n_most = 1 << 16;
    if (r->local) cd.net = tiny_local_net(r->local, rank);
    m = t_rank_model(TINY_TARGET_AUTO, r->local ? &cd : NULL, r->path, NULL, 0);
    if (r->world > 1) t_rank_cut(&m, rank, r->world);
    t_rank_state(&m, 32, 0);
    for (i = 0; i < TOKENS; i++) token[i] = (int32_t)((i * 37 + 5) % 64);
    if (!m.st) m.st = tllm_forward(m.state, token, TOKENS - 1, 0, TOKENS - 1, r->y[rank]);
    if (!m.st) m.st = tllm_forward(m.state, token + TOKENS - 1, 1, TOKENS - 1, 1, r->y[rank] + 64 * (TOKENS - 1));
    r->st[rank] = t_rank_leave(&m, r->says[rank], sizeof r->says[rank]);
}

static void cut(const char *name, const char *refused)
{
    const size_t n = 64 * TOKENS;
    tiny_local_desc line;
    run whole, r;
    int k;
    memset(&whole, 0, sizeof whole);
    memset(&line, 0, sizeof line);
    whole.path = golden(name);
    whole.world = 1;
    whole.y[0] = t_guarded(n);
    if (!whole.path) return;
    on_rank(0, &whole);
    if (!T_EQ_INT(whole.st[0], TINY_OK)) { printf("  %s: %s\n", name, whole.says[0]); return; }
    r = whole;
    r.world = line.world = RANKS;
    line.queue_bytes = 1 << 18;
    for (k = 0; k < RANKS; k++) r.y[k] = t_guarded(n);
    {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        T_OK(tiny_local_open(ctx, &line, &r.local));
        k = t_ranks(RANKS, on_rank, &r);
        tiny_local_close(ctx, r.local);
        t_close(ctx);
    }
    if (!k) return;
    for (k = 0; k < RANKS; k++) {
        if (refused) {
            if (!T_TRUE(r.st[k] != TINY_OK && strstr(r.says[k], refused) != NULL))
                printf("  %s: %s\n", name, r.says[k]);
        } else if (!T_EQ_INT(r.st[k], TINY_OK)) printf("  %s: %s\n", name, r.says[k]);
        else if (!T_TRUE(apart(whole.y[0], r.y[k], n) <= 5e-6))
            printf("  %s over ranks: %g apart\n", name, apart(whole.y[0], r.y[k], n));
    }
}
static void test_cut(void)
{
    cut("nanbeige", NULL);
    cut("granite_swa", NULL);
    cut("laguna-dense", NULL);
    cut("laguna-each", "no dense network");
}

/* ---- layers that are run several times ---- */

static void test_again(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const char *path = golden("nanbeige");
    tllm_gguf *g = NULL;
    tllm_model *model = NULL;
    tllm_about about;
    tllm_repacked eight;
    unsigned char route[8] = { TLLM_ROUTE_LADDER, 0, 0, 0, 0, 0, 0, 0 };
    made q;
    tllm_folds *folds = NULL;
    if (!path || !T_OK(tllm_gguf_open(ctx, path, &g))) { t_close(ctx); return; }
    if (T_OK(tllm_model_open(ctx, g, &model))) {
        tllm_model_about(model, &about);
        T_EQ_INT(about.n_layer, 4);         /* 2 in the file */
        /* each once */
        T_TRUE(about.n_params == 64 * 32 + 32 + 2 * (2 * 32 + 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 32));
        T_STATUS(tllm_model_routes(ctx, model, route, 8), TINY_E_UNSUPPORTED, "its only route is standard");
        tllm_model_close(ctx, model);
    }
    T_STATUS(tllm_folds_open(ctx, g, &folds), TINY_E_UNSUPPORTED,
             "run several times with the same weights; folds are not supported");
    /* 7 matrices in each of the two layers: each is repacked once, and both times are as before */
    if (packed(ctx, g, TLLM_FORMAT_Q8_0, &q)) {
        size_t n = 0;
        float *plain = results(ctx, q.file, &n), *y;
        tllm_state *s = NULL;
        tllm_state_desc d;
        int32_t token[TOKENS];
        int i;
        memset(&d, 0, sizeof d);
        d.n_ctx = 32;
        y = t_guarded(n);
        for (i = 0; i < TOKENS; i++) token[i] = (7 * i * i + 3 * i + 1) % 64;
        if (plain && T_OK(tllm_model_open(ctx, q.file, &model))) {
            T_OK(tllm_model_repack(ctx, model, NULL, &eight));
            T_EQ_INT(eight.n, tllm_repack_has(ctx, TLLM_FORMAT_Q8_0) == 2 ? 14 : 0);
            T_OK(tllm_state_open(ctx, model, &d, &s));
            T_OK(tllm_forward(s, token, TOKENS, 0, TOKENS, y));
            T_TRUE(apart(plain, y, n) < 3e-2);          /* activations in 8 bits: the mark of repack.c, a root of it */
            tllm_state_close(ctx, s);
            tllm_model_close(ctx, model);
        }
    }
    drop(ctx, &q);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* ---- files with another key or tensor ---- */

/* how: g removed, l less by an item, n one number, e a list that is true for v layers, a one number more, s shape by
 * its first dimension */
typedef struct wrong { const char *model, *key; char how; uint32_t v; const char *says; } wrong;

static tllm_gguf *rewritten(tiny_ctx *ctx, const tllm_gguf *g, const wrong *w, tllm_writer **out)
{
    static const unsigned char yes[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    tllm_gguf *again = NULL;
    const void *bytes;
    size_t i, n = 0, found = w->how == 'a';
    if (!T_OK(tllm_writer_open(ctx, NULL, out))) return NULL;
    for (i = 0; i < tllm_gguf_n_meta(g); i++) {
        tllm_meta m = *tllm_gguf_meta_at(g, i);
        if (tllm_text_is(m.key, w->key)) {
            found++;
            if (w->how == 'g') continue;
            if (w->how == 'n') { T_OK(tllm_writer_put_u32(ctx, *out, w->key, w->v)); continue; }
            if (w->how == 'e') { T_OK(tllm_writer_put_array(ctx, *out, w->key, TLLM_BOOL, yes, w->v)); continue; }
            m.count--;
        }
        T_OK(tllm_writer_put_meta(ctx, *out, &m));
    }
    if (w->how == 'a') T_OK(tllm_writer_put_u32(ctx, *out, w->key, w->v));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        uint64_t dim[4];
        memcpy(dim, t->dim, sizeof dim);
        if (tllm_text_is(t->name, w->key)) {
            found++;
            if (w->how == 'g') continue;
            dim[1] = dim[0] * dim[1] / w->v;
            dim[0] = w->v;
        }
        T_OK(tllm_writer_put_tensor(ctx, *out, t->name, t->type, t->rank, dim, t->data));
    }
    if (!T_EQ_INT((int)found, 1) || !T_OK(tllm_writer_finish(ctx, *out))) return NULL;
    bytes = tllm_writer_memory(*out, &n);
    T_OK(tllm_gguf_open_memory(ctx, bytes, n, &again));
    return again;
}

/* the same in two forms, and ignored keys: the same bits */
static void test_equivalent_descriptions(void)
{
    static const wrong pairs[][2] = { { { "plamo3", "plamo3.attention.sliding_window_pattern", 'n', 0, NULL },
                                        { "plamo3", "plamo3.attention.sliding_window_pattern", 'e', 3, NULL } },
                                      { { "plamo3", "plamo3.rope.dimension_count_swa", 'a', 4, NULL },
                                        { "plamo3", "plamo3.rope.dimension_count", 'a', 4, NULL } },
                                      { { "mimo2", "mimo2.rope.dimension_count_swa", 'a', 2, NULL },
                                        { "mimo2", "mimo2.expert_weights_scale", 'a', 5, NULL } },
                                      { { "smallthinker", "smallthinker.attention.sliding_window_pattern", 'a', 2,
                                          NULL },
                                        { "smallthinker", "smallthinker.nobody.reads.this", 'a', 2, NULL } } };
    size_t i, n = 0;
    for (i = 0; i < T_COUNT(pairs); i++) {
        float *y[2] = { NULL, NULL };
        int k;
        for (k = 0; k < 2; k++) {
            tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
            const char *path = golden(pairs[i][k].model);
            tllm_gguf *g = NULL, *again;
            tllm_writer *out = NULL;
            if (path && T_OK(tllm_gguf_open(ctx, path, &g))) {
                again = rewritten(ctx, g, &pairs[i][k], &out);
                if (again) y[k] = results(ctx, again, &n);
                tllm_gguf_close(ctx, again);
            }
            tllm_writer_close(ctx, out);
            tllm_gguf_close(ctx, g);
            t_close(ctx);
        }
        if (y[0] && y[1]) T_SAME(y[0], y[1], (int)n);
    }
}

static void tell(const wrong *w)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    const char *path = golden(w->model);
    tllm_gguf *g = NULL, *again = NULL;
    tllm_model *model = NULL;
    tllm_writer *out = NULL;
    if (path && T_OK(tllm_gguf_open(ctx, path, &g)) && (again = rewritten(ctx, g, w, &out)) != NULL) {
        if (!T_STATUS(tllm_model_open(ctx, again, &model), TINY_E_FORMAT, w->says))
            printf("  %s: %s: %s\n", w->model, w->key, tiny_ctx_message(ctx));
        T_TRUE(model == NULL);
    }
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, again);
    tllm_writer_close(ctx, out);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}
static void test_invalid_files(void)
{
    static const wrong all[] = {
        { "granite_swa", "granite_swa.attention.sliding_window_pattern", 'g', 0,
          "granite_swa.attention.sliding_window_pattern is missing" },
        { "granite_swa", "granite_swa.attention.sliding_window_pattern", 'l', 0,
          "sliding_window_pattern has 2 items, none for layer 2" },
        { "granite_swa", "granite_swa.attention.sliding_window_pattern", 'n', 1, "window_pattern is not a list" },
        { "granite_swa", "granite_swa.attention.rope_pattern", 'l', 0, "rope_pattern has 2 items, none for layer 2" },
        { "granite_swa", "granite_swa.attention.rope_pattern", 'n', 1, "rope_pattern is not a list" },
        { "granite_swa", "granite_swa.attention.sliding_window", 'g', 0,
          "granite_swa.attention.sliding_window is missing" },
        { "granite_swa", "granite_swa.attention.sliding_window", 'n', 0, "sliding_window is 0, not in 1" },
        { "granite_swa-moe", "blk.1.ffn_up_shexp.weight", 's', 32, "blk.1.ffn_up_shexp.weight is 32x8, not" },
        { "nanbeige", "nanbeige.num_loops", 'n', 0, "num_loops is 0, not in 1..4096" },
        { "nanbeige", "nanbeige.num_loops", 'n', 2049, "2 layers, each run 2049 times, are more than 4096" },
        { "nanbeige", "blk.1.ffn_down.weight", 'g', 0, "blk.1.ffn_down.weight is missing" },
        { "plamo3", "blk.2.attn_qkv.weight", 'g', 0, "blk.2.attn_q.weight is missing" },
        { "mellum", "mellum.attention.sliding_window_pattern", 'l', 0,
          "sliding_window_pattern has 2 items, none for layer 2" },
        { "mellum", "blk.1.ffn_gate_inp.weight", 'g', 0, "blk.1.ffn_gate.weight is missing" },
        { "afmoe", "blk.3.attn_gate.weight", 'g', 0, "blk.3.attn_gate.weight is missing" },
        { "afmoe", "blk.3.attn_gate.weight", 's', 8, "blk.3.attn_gate.weight is 8x32, not 16x16" },
        { "mimo2", "mimo2.attention.sliding_window_pattern", 'g', 0,
          "mimo2.attention.sliding_window_pattern is missing" },
        { "mimo2", "mimo2.attention.head_count_kv", 'l', 0, "head_count_kv has 2 items, none for layer 2" },
        { "mimo2", "blk.1.attn_sinks.weight", 's', 2, "blk.1.attn_sinks.weight is" },
        { "step35", "step35.swiglu_clamp_exp", 'l', 0, "swiglu_clamp_exp has 2 items, none for layer 2" },
        { "step35", "step35.swiglu_clamp_shexp", 'l', 0, "swiglu_clamp_shexp has 2 items, none for layer 2" },
        { "step35", "blk.1.attn_gate.weight", 's', 32, "blk.1.attn_gate.weight is 32x2, not 16x32" },
        { "step35", "rope_freqs.weight", 's', 2, "rope_freqs.weight is 2, not 4 numbers" },
        { "laguna", "blk.0.attn_gate.weight", 'g', 0, "blk.0.attn_gate.weight is missing" },
        { "laguna", "blk.1.attn_gate.weight", 's', 8, "blk.1.attn_gate.weight is 8x8, not 16x32" }
    };
    size_t i;
    for (i = 0; i < T_COUNT(all); i++) tell(&all[i]);
}

int main(void)
{
    T_RUN(test_cut);
    T_RUN_TARGETS(test_again);
    T_RUN(test_equivalent_descriptions);
    T_RUN(test_invalid_files);
    return t_done();
}
