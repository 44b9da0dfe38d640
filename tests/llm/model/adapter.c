/* tests/llm/model/adapter.c - LoRA adapters and control vectors on small models of the oracle
 *
 * The judge is a second model: its weights W + weight * alpha / r * B A are computed here, in double, by four plain
 * loops, and written as a GGUF file; an adapter on the first model must give the logits of the second.
 *
 * Refused files are in tests/fuzz/corpus/adapter too; T_CORPUS=folder in the environment writes them again. */
#include "t.h"

enum { MOST = 400, TOKENS = 20 };

typedef struct patch { char name[80]; float *a, *b; uint64_t n_in, n_out, n_mat, r; int embd; } patch;
typedef struct kit {
    tiny_ctx *ctx;
    tllm_gguf *file;
    tllm_model *model;
    patch p[MOST];
    int n;
} kit;

static int kit_open(kit *k, tiny_ctx *ctx, const char *name)
{
    char path[200];
    const char *full;
    memset(k, 0, sizeof *k);
    k->ctx = ctx;
    (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name);
    full = t_shared(path);
    return full && T_OK(tllm_gguf_open(ctx, full, &k->file)) && T_OK(tllm_model_open(ctx, k->file, &k->model));
}
static void kit_close(kit *k)
{
    tllm_model_close(k->ctx, k->model);
    tllm_gguf_close(k->ctx, k->file);
}

/* A and B for a tensor of the model; small enough that the logits stay of the size they had */
static void kit_patch(kit *k, const char *name, uint64_t r, float size)
{
    const tllm_gguf_tensor *t = tllm_gguf_tensor_find(k->file, name);
    patch *p = &k->p[k->n];
    if (!t) return;
    (void)snprintf(p->name, sizeof p->name, "%s", name);
    p->n_in = t->dim[0];
    p->n_out = t->dim[1];
    p->n_mat = t->dim[2];
    p->r = r;
    p->embd = !strcmp(name, "token_embd.weight");
    p->a = t_rand((size_t)((p->embd ? p->n_out : p->n_in) * r * p->n_mat), -size, size);
    p->b = t_rand((size_t)((p->embd ? p->n_in : p->n_out) * r * p->n_mat), -size, size);
    k->n++;
}

static void put_tensor(tiny_ctx *ctx, tllm_writer *w, const char *name, const char *end, uint64_t d0, uint64_t d1,
                       uint64_t d2, const void *data)
{
    char full[120];
    tllm_text text;
    uint64_t dim[3];
    (void)snprintf(full, sizeof full, "%s%s", name, end);
    text.at = full;
    text.n = strlen(full);
    dim[0] = d0;
    dim[1] = d1;
    dim[2] = d2;
    (void)tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, d2 > 1 ? 3 : 2, dim, data);
}

/* the adapter as a file in memory; writer: to be closed after the last use of the file */
static tllm_gguf *kit_adapter(kit *k, const char *arch, float alpha, int first, int n, tllm_writer **w)
{
    tllm_gguf *g = NULL;
    const void *bytes;
    size_t n_bytes;
    int i;
    if (tllm_writer_open(k->ctx, NULL, w)) return NULL;
    (void)tllm_writer_put_text(k->ctx, *w, "general.type", "adapter");
    (void)tllm_writer_put_text(k->ctx, *w, "general.architecture", arch);
    (void)tllm_writer_put_text(k->ctx, *w, "adapter.type", "lora");
    (void)tllm_writer_put_f32(k->ctx, *w, "adapter.lora.alpha", alpha);
    for (i = first; i < first + n; i++) {
        const patch *p = &k->p[i];
        if (p->embd) {
            put_tensor(k->ctx, *w, p->name, ".lora_a", p->r, p->n_out, 1, p->a);
            put_tensor(k->ctx, *w, p->name, ".lora_b", p->r, p->n_in, 1, p->b);
        } else {
            put_tensor(k->ctx, *w, p->name, ".lora_a", p->n_in, p->r, p->n_mat, p->a);
            put_tensor(k->ctx, *w, p->name, ".lora_b", p->r, p->n_out, p->n_mat, p->b);
        }
    }
    if (!T_OK(tllm_writer_finish(k->ctx, *w))) return NULL;
    bytes = tllm_writer_memory(*w, &n_bytes);
    if (!T_OK(tllm_gguf_open_memory(k->ctx, bytes, n_bytes, &g))) return NULL;
    return g;
}

/* The second model. With a tied output the embedding is patched and the output is not: it is written as a tensor of its
 * own. */
static tllm_gguf *kit_merged(kit *k, double scale, tllm_writer **w)
{
    tllm_gguf *g = NULL;
    const tllm_gguf_tensor *embd = tllm_gguf_tensor_find(k->file, "token_embd.weight");
    const int tied = !tllm_gguf_tensor_find(k->file, "output.weight");
    const void *bytes;
    size_t n_bytes, i;
    if (tllm_writer_open(k->ctx, NULL, w)) return NULL;
    for (i = 0; i < tllm_gguf_n_meta(k->file); i++)
        (void)tllm_writer_put_meta(k->ctx, *w, tllm_gguf_meta_at(k->file, i));
    for (i = 0; i < tllm_gguf_n_tensors(k->file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(k->file, i);
        const patch *p = NULL;
        int j;
        for (j = 0; j < k->n; j++) if (tllm_text_is(t->name, k->p[j].name)) p = &k->p[j];
        if (!p) (void)tllm_writer_put_tensor(k->ctx, *w, t->name, t->type, t->rank, t->dim, t->data);
        else {
            const size_t n_in = (size_t)p->n_in, n_out = (size_t)p->n_out, n_mat = (size_t)p->n_mat, R = (size_t)p->r;
            float *v = (float *)t_keep(n_in * n_out * n_mat * sizeof *v);
            size_t e, r, c, q;
            tllm_format_of(t->type)->unpack(t->data, v, n_in * n_out * n_mat);
            for (e = 0; e < n_mat; e++)
                for (r = 0; r < n_out; r++)
                    for (c = 0; c < n_in; c++) {
                        double s = 0.0;
                        for (q = 0; q < R; q++)
                            s += p->embd ? (double)p->a[r * R + q] * (double)p->b[c * R + q]
                                         : (double)p->b[(e * n_out + r) * R + q] * (double)p->a[(e * R + q) * n_in + c];
                        v[(e * n_out + r) * n_in + c] =
                            (float)((double)v[(e * n_out + r) * n_in + c] + scale / (double)R * s);
                    }
            (void)tllm_writer_put_tensor(k->ctx, *w, t->name, TLLM_FORMAT_F32, t->rank, t->dim, v);
        }
    }
    if (tied && embd) {
        tllm_text name;
        name.at = "output.weight";
        name.n = 13;
        (void)tllm_writer_put_tensor(k->ctx, *w, name, embd->type, embd->rank, embd->dim, embd->data);
    }
    if (!T_OK(tllm_writer_finish(k->ctx, *w))) return NULL;
    bytes = tllm_writer_memory(*w, &n_bytes);
    if (!T_OK(tllm_gguf_open_memory(k->ctx, bytes, n_bytes, &g))) return NULL;
    return g;
}

static const int32_t text_of[TOKENS] = {
    1, 17, 5, 99, 200, 3, 42, 77, 130, 9, 250, 61, 18, 5, 5, 180, 11, 222, 64, 31
};

/* logits (TOKENS, n_out); chunk: tokens a call */
static tiny_status logits_of(tiny_ctx *ctx, const tllm_model *model, const tllm_adapter *const *a, const float *weight,
                             int n, int chunk, float *out)
{
    tllm_state_desc d;
    tllm_state *s = NULL;
    tllm_about about;
    tiny_status st;
    int32_t token[TOKENS];
    int i;
    tllm_model_about(model, &about);
    memset(&d, 0, sizeof d);
    d.n_ctx = 32;
    for (i = 0; i < TOKENS; i++) token[i] = about.is_encoder ? text_of[i] : text_of[i] % (int32_t)about.n_out;
    st = tllm_state_open(ctx, model, &d, &s);
    for (i = 0; i < n && !st; i++) st = tllm_state_attach(s, a[i], weight[i]);
    if (!st && about.is_encoder) st = tllm_forward_all(s, token, TOKENS, out);
    else
        for (i = 0; i < TOKENS && !st; i += chunk)
            st = tllm_forward(s, token + i, chunk, i, chunk, out + (size_t)i * (size_t)about.n_out);
    tllm_state_close(ctx, s);
    return st;
}

static size_t n_logits(const tllm_model *m)
{
    tllm_about about;
    tllm_model_about(m, &about);
    return (size_t)TOKENS * (size_t)about.n_out;
}

/* The tolerance of tests/llm/model/oracle.c for the reference against another program: sums in another order, rounded
 * at other places. */
static void near_to(const float *got, const float *want, size_t n)
{
    double ss = 0.0, mark;
    size_t i, at = 0;
    for (i = 0; i < n; i++) ss += (double)want[i] * (double)want[i];
    mark = 2e-4 * (1.0 + sqrt(ss / (double)n));
    for (i = 0; i < n; i++)
        if (fabs((double)got[i] - (double)want[i]) > fabs((double)got[at] - (double)want[at]) || got[i] != got[i])
            at = i;
    T_CLOSE(got[at], want[at], mark);
}
/* The same for block formats on a SIMD target, whose products round the activations too: the tolerance of block
 * formats, 1.2 of the relative RMS distance that its index states for llama-q8_0. */
static void near_to_rounded(const float *got, const float *want, size_t n)
{
    double ss = 0.0, dd = 0.0;
    size_t i;
    for (i = 0; i < n; i++) {
        ss += (double)want[i] * (double)want[i];
        dd += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    }
    T_TRUE(sqrt(dd / ss) <= 1.2 * 2.0e-2);
}
static double distance(const float *x, const float *y, size_t n)
{
    double most = 0.0;
    size_t i;
    for (i = 0; i < n; i++) if (fabs((double)x[i] - (double)y[i]) > most) most = fabs((double)x[i] - (double)y[i]);
    return most;
}

static const char *const each_layer[] = { "attn_q",        "attn_k",           "attn_v",        "attn_qkv",
                                          "attn_kv_b",     "attn_output",      "ffn_gate",      "ffn_up",
                                          "ffn_down",      "ffn_gate_inp",     "ffn_gate_exps", "ffn_up_exps",
                                          "ffn_down_exps", "ffn_gate_up_exps", "attn_q_a",      "attn_q_b",
                                          "attn_kv_a_mqa", "ssm_in",           "ssm_out",       "ssm_x" };

static void patch_all(kit *k, float size)
{
    char name[80];
    size_t i;
    int l;
    kit_patch(k, "token_embd.weight", 2, size);
    kit_patch(k, "output.weight", 5, size);
    for (l = 0; l < 8; l++)
        for (i = 0; i < T_COUNT(each_layer); i++) {
            (void)snprintf(name, sizeof name, "blk.%d.%s.weight", l, each_layer[i]);
            kit_patch(k, name, 1 + (uint64_t)((i + (size_t)l) % 4), size);
        }
}

/* run time and both ways of merging against the second model; all targets and the reference */
static void against_merged(tiny_target target, const char *name)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    /* only the model of the file has blocks: merged ones have f32 in their place */
    void (*const near)(const float *, const float *, size_t) =
        target != TINY_TARGET_REFERENCE && !strcmp(name, "llama-q8_0") ? near_to_rounded : near_to;
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, name)) {
        const size_t n = n_logits(k->model);
        float *plain = t_guarded(n), *want = t_guarded(n), *got = t_guarded(n), *again = t_guarded(n);
        tllm_writer *wa = NULL, *wm = NULL;
        tllm_gguf *ga, *gm;
        tllm_model *merged = NULL;
        tllm_adapter *a = NULL;
        tllm_about model;
        const float one = 1.0f;
        tllm_model_about(k->model, &model);
        /* next to an adapter the list is read too; merging ends the copy */
        if (!strcmp(name, "plm")) T_OK(tllm_model_sparse(ctx, k->model, -1, NULL));
        patch_all(k, 0.15f);
        T_TRUE(k->n > 5);
        ga = kit_adapter(k, model.arch, 3.0f, 0, k->n, &wa);
        gm = kit_merged(k, 3.0, &wm);
        if (ga && gm && T_OK(tllm_model_open(ctx, gm, &merged)) && T_OK(tllm_adapter_open(ctx, k->model, ga, &a))) {
            const tllm_adapter *list = a;
            tllm_adapter_about about;
            tllm_adapter_tell(a, &about);
            T_TRUE(about.kind == TLLM_ADAPTER_LORA && about.n_places == (size_t)k->n && about.alpha == 3.0);
            T_OK(logits_of(ctx, k->model, NULL, NULL, 0, TOKENS, plain));
            T_OK(logits_of(ctx, merged, NULL, NULL, 0, TOKENS, want));
            T_TRUE(distance(plain, want, n) > 0.02);        /* it does something */
            T_OK(logits_of(ctx, k->model, &list, &one, 1, TOKENS, got));
            near(got, want, n);
            T_OK(logits_of(ctx, k->model, &list, &one, 1, 1, again));
            near(again, want, n);
            T_OK(tllm_adapter_merge(ctx, k->model, a, 1.0f, TINY_F32));
            T_OK(logits_of(ctx, k->model, NULL, NULL, 0, TOKENS, got));
            /* the same weights as in the file, up to the rounding of alpha / r to a float */
            near_to(got, want, n);
            /* one by one, where lists of neurons would be read */
            T_OK(logits_of(ctx, k->model, NULL, NULL, 0, 1, again));
            near(again, want, n);
            T_OK(tllm_adapter_merge(ctx, k->model, a, -1.0f, TINY_F32));
            T_OK(logits_of(ctx, k->model, NULL, NULL, 0, TOKENS, got));
            near(got, plain, n);                            /* and back again */
        }
        tllm_adapter_close(ctx, a);
        tllm_model_close(ctx, merged);
        tllm_gguf_close(ctx, ga);
        tllm_gguf_close(ctx, gm);
        tllm_writer_close(ctx, wa);
        tllm_writer_close(ctx, wm);
    }
    kit_close(k);
    t_close(ctx);
}
static void test_llama(tiny_target target) { against_merged(target, "llama"); }
static void test_llama_q8_0(tiny_target target) { against_merged(target, "llama-q8_0"); }
static void test_deepseek2(tiny_target target) { against_merged(target, "deepseek2"); }
/* the parts of attn_kv_b, each alone */
static void test_plm(tiny_target target) { against_merged(target, "plm"); }
static void test_gpt2(tiny_target target) { against_merged(target, "gpt2"); }
static void test_bert(tiny_target target) { against_merged(target, "bert"); }
static void test_mamba(tiny_target target) { against_merged(target, "mamba"); }
static void test_experts(void)
{
    against_merged(TINY_TARGET_AUTO, "llama4-b");       /* one of four experts for each token */
    if (t_one_of("oracle/llm/mixtral.gguf")) against_merged(TINY_TARGET_AUTO, "mixtral");
}
/* a layer that is run three times */
static void test_nanbeige(tiny_target target) { against_merged(target, "nanbeige-skip"); }
static void test_reference(void)
{
    against_merged(TINY_TARGET_REFERENCE, "llama");
    against_merged(TINY_TARGET_REFERENCE, "deepseek2");
    against_merged(TINY_TARGET_REFERENCE, "plm");
}

/* how many of the first 18 tokens another sequence has already; it is empty afterwards */
static int found(tllm_state *s)
{
    tiny_idx n = -1;
    T_OK(tllm_seq_share(s, 1, text_of, 18, &n));
    tllm_seq_clear(s, 1);
    return (int)n;
}

/* pages that were computed with other weights than those of now are not found */
static void test_share(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, "llama")) {
        const size_t n = n_logits(k->model), row = n / TOKENS;
        float *want = t_guarded(n), *got = t_guarded(row), one = 1.0f;
        tllm_writer *w0 = NULL;
        tllm_gguf *g0;
        tllm_adapter *a = NULL;
        tllm_state *s = NULL;
        tllm_state_desc d;
        memset(&d, 0, sizeof d);
        d.n_ctx = 32;
        d.n_seq = 2;
        d.n_page = 4;
        kit_patch(k, "blk.0.attn_q.weight", 3, 0.2f);
        kit_patch(k, "blk.0.attn_k.weight", 3, 0.2f);
        g0 = kit_adapter(k, "llama", 2.0f, 0, 1, &w0);
        if (g0 && T_OK(tllm_adapter_open(ctx, k->model, g0, &a)) && T_OK(tllm_state_open(ctx, k->model, &d, &s))) {
            T_OK(tllm_forward(s, text_of, 18, 0, 1, got));
            T_EQ_INT(found(s), 16);
            T_OK(tllm_state_attach(s, a, 1.0f));
            T_EQ_INT(found(s), 0);
            /* continues after a name that is not found; this one is not found either */
            T_OK(tllm_forward(s, text_of + 18, 1, 18, 1, got));
            T_EQ_INT(found(s), 0);
            tllm_state_clear(s);
            T_OK(tllm_forward(s, text_of, 18, 0, 1, got));
            T_OK(logits_of(ctx, k->model, (const tllm_adapter *const *)&a, &one, 1, TOKENS, want));
            near_to(got, want + 17 * row, row);
            T_EQ_INT(found(s), 16);
            T_OK(tllm_state_attach(s, a, 1.0f));                    /* no change */
            T_EQ_INT(found(s), 16);
            T_OK(tllm_state_attach(s, a, 0.5f));
            T_EQ_INT(found(s), 0);
            T_OK(tllm_state_attach(s, a, 1.0f));                    /* forgotten sequences stay forgotten */
            T_EQ_INT(found(s), 0);
            T_OK(tllm_state_attach(s, a, 0.0f));
            T_EQ_INT(found(s), 0);
            tllm_state_clear(s);
            T_OK(tllm_forward(s, text_of, 18, 0, 1, got));
            T_EQ_INT(found(s), 16);
            T_OK(tllm_adapter_merge(ctx, k->model, a, 1.0f, TINY_F32));
            T_EQ_INT(found(s), 0);
        }
        tllm_state_close(ctx, s);
        tllm_adapter_close(ctx, a);
        tllm_gguf_close(ctx, g0);
        tllm_writer_close(ctx, w0);
    }
    kit_close(k);
    t_close(ctx);
}

/* A saved state records the adapters that it was computed with. */
static void test_saved(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, "llama")) {
        float *got = t_guarded(n_logits(k->model) / TOKENS);
        tllm_writer *w[2] = { NULL, NULL };
        tllm_gguf *g[2];
        tllm_adapter *a[2] = { NULL, NULL };
        tllm_state *s = NULL;
        tllm_state_desc d;
        /* computed without; with a[0]; with both; with a[0] at one half; with a[0] merged */
        void *bytes[5] = { NULL };
        size_t n[5];
        int i, now = 0;
        memset(&d, 0, sizeof d);
        d.n_ctx = 8;
        for (i = 0; i < 2; i++) {
            kit_patch(k, i ? "blk.1.attn_k.weight" : "blk.0.attn_k.weight", 3, 0.2f);
            g[i] = kit_adapter(k, "llama", 2.0f, i, 1, &w[i]);
            if (g[i]) T_OK(tllm_adapter_open(ctx, k->model, g[i], &a[i]));
        }
        if (a[0] && a[1] && T_OK(tllm_state_open(ctx, k->model, &d, &s))) {
            for (now = 0; now < 5; now++) {
                if (now == 1) T_OK(tllm_state_attach(s, a[0], 1.0f));
                if (now == 2) T_OK(tllm_state_attach(s, a[1], -1.0f));
                if (now == 3) {             /* the order in which they were attached does not matter */
                    T_OK(tllm_state_attach(s, a[0], 0.0f));
                    T_OK(tllm_state_attach(s, a[1], -1.0f));
                    T_OK(tllm_state_attach(s, a[0], 1.0f));
                    T_OK(tllm_state_unpack(s, 0, bytes[2], n[2], NULL, 0, NULL));
                    T_OK(tllm_state_attach(s, a[1], 0.0f));
                    T_OK(tllm_state_attach(s, a[0], 0.5f));
                }
                if (now == 4) T_OK(tllm_state_attach(s, a[0], 0.0f));
                if (now == 4) T_OK(tllm_adapter_merge(ctx, k->model, a[0], 1.0f, TINY_F32));
                tllm_state_clear(s);
                T_OK(tllm_forward(s, text_of, 4, 0, 1, got));
                T_OK(tllm_state_pack(s, 0, NULL, 0, &bytes[now], &n[now]));
                for (i = 0; i <= now && bytes[i]; i++) {
                    const tiny_status st = tllm_state_unpack(s, 0, bytes[i], n[i], NULL, 0, NULL);
                    if (i == now) T_OK(st);
                    else T_STATUS(st, TINY_E_FORMAT, "another model or to other adapters");
                }
            }
        }
        for (i = 0; i < 5; i++) tiny_free(ctx, bytes[i]);
        tllm_state_close(ctx, s);
        for (i = 0; i < 2; i++) {
            tllm_adapter_close(ctx, a[i]);
            tllm_gguf_close(ctx, g[i]);
            tllm_writer_close(ctx, w[i]);
        }
    }
    kit_close(k);
    t_close(ctx);
}

/* weights that change between tokens, several at once, f16 */
static void test_weights(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, "llama")) {
        const size_t n = n_logits(k->model), row = n / TOKENS;
        float *plain = t_guarded(n), *want = t_guarded(n), *got = t_guarded(n), w2[2] = { 1.0f, 1.0f };
        tllm_writer *w0 = NULL, *w1 = NULL, *wm = NULL;
        tllm_gguf *g0, *g1, *gm;
        tllm_adapter *a[2] = { NULL, NULL };
        tllm_model *merged = NULL;
        tllm_state *s = NULL;
        tllm_state_desc d;
        memset(&d, 0, sizeof d);
        d.n_ctx = 32;
        kit_patch(k, "blk.0.attn_q.weight", 3, 0.2f);
        /* more than the width of one vector, and than the rows at once */
        kit_patch(k, "blk.1.ffn_down.weight", 70, 0.1f);
        g0 = kit_adapter(k, "llama", 2.0f, 0, 1, &w0);
        g1 = kit_adapter(k, "llama", 2.0f, 1, 1, &w1);
        gm = kit_merged(k, 2.0, &wm);
        if (g0 && g1 && gm && T_OK(tllm_model_open(ctx, gm, &merged)) &&
            T_OK(tllm_adapter_open(ctx, k->model, g0, &a[0])) && T_OK(tllm_adapter_open(ctx, k->model, g1, &a[1])) &&
            T_OK(tllm_state_open(ctx, k->model, &d, &s))) {
            T_OK(logits_of(ctx, k->model, NULL, NULL, 0, TOKENS, plain));
            T_OK(logits_of(ctx, merged, NULL, NULL, 0, TOKENS, want));
            T_OK(logits_of(ctx, k->model, (const tllm_adapter *const *)a, w2, 2, TOKENS, got));
            near_to(got, want, n);
            /* weight 0 and a detached one: bit for bit as without */
            T_OK(tllm_state_attach(s, a[0], 0.0f));
            T_OK(tllm_state_attach(s, a[0], 0.5f));
            T_OK(tllm_state_attach(s, a[1], -3.0f));
            T_OK(tllm_state_attach(s, a[0], 0.0f));
            T_OK(tllm_state_attach(s, a[1], 0.0f));
            T_OK(tllm_forward(s, text_of, TOKENS, 0, TOKENS, got));
            T_SAME(got, plain, n);
            /* on for the second half only: the first rows are those without; the keys before it are too */
            tllm_state_clear(s);
            T_OK(tllm_forward(s, text_of, 10, 0, 10, got));
            T_OK(tllm_state_attach(s, a[1], 1.0f));
            T_OK(tllm_forward(s, text_of + 10, 10, 10, 10, got + 10 * row));
            near_to(got, plain, 10 * row);
            T_TRUE(distance(got + 10 * row, plain + 10 * row, 10 * row) > 0.01);
            T_STATUS(tllm_state_attach(s, a[1], NAN), TINY_E_ARGUMENT, "must be a finite number");
            T_STATUS(tllm_state_attach(s, NULL, 1.0f), TINY_E_ARGUMENT, "the adapter is NULL");
            tllm_state_close(ctx, s);
            s = NULL;
            if (T_OK(tllm_state_open(ctx, merged, &d, &s)))
                T_STATUS(tllm_state_attach(s, a[0], 1.0f), TINY_E_ARGUMENT, "opened for another model");
            T_STATUS(tllm_adapter_merge(ctx, merged, a[0], 1.0f, TINY_F32), TINY_E_ARGUMENT,
                     "opened for another model");
            T_STATUS(tllm_adapter_merge(ctx, k->model, a[0], 1.0f, TINY_BF16), TINY_E_DTYPE, "f32 or f16, not bf16");
            T_OK(tllm_adapter_merge(ctx, k->model, a[0], 1.0f, TINY_F16));
            T_OK(tllm_adapter_merge(ctx, k->model, a[1], 1.0f, TINY_F16));
            T_OK(logits_of(ctx, k->model, NULL, NULL, 0, TOKENS, got));
            T_TRUE(distance(got, want, n) > 0.0 && distance(got, want, n) < 0.05);      /* weights rounded to 11 bits */
        }
        tllm_state_close(ctx, s);
        tllm_adapter_close(ctx, a[0]);
        tllm_adapter_close(ctx, a[1]);
        tllm_model_close(ctx, merged);
        tllm_gguf_close(ctx, g0);
        tllm_gguf_close(ctx, g1);
        tllm_gguf_close(ctx, gm);
        tllm_writer_close(ctx, w0);
        tllm_writer_close(ctx, w1);
        tllm_writer_close(ctx, wm);
    }
    kit_close(k);
    t_close(ctx);
}

/* more tokens at once than A x is held for */
static void test_long(tiny_target target)
{
    enum { LONG = 150 };
    tiny_ctx *ctx = t_ctx(target, 2);
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, "llama")) {
        const size_t row = n_logits(k->model) / TOKENS, n = LONG * row;
        float *want = t_guarded(n), *got = t_guarded(n);
        int32_t tokens[LONG];
        tllm_writer *wa = NULL, *wm = NULL;
        tllm_gguf *ga, *gm;
        tllm_model *merged = NULL;
        tllm_adapter *a = NULL;
        tllm_state *s = NULL;
        tllm_state_desc d;
        int i;
        memset(&d, 0, sizeof d);
        d.n_ctx = d.n_batch = LONG;
        for (i = 0; i < LONG; i++) tokens[i] = (int32_t)t_rand_below(320);
        patch_all(k, 0.15f);
        ga = kit_adapter(k, "llama", 3.0f, 0, k->n, &wa);
        gm = kit_merged(k, 3.0, &wm);
        if (ga && gm && T_OK(tllm_model_open(ctx, gm, &merged)) && T_OK(tllm_adapter_open(ctx, k->model, ga, &a))) {
            if (T_OK(tllm_state_open(ctx, merged, &d, &s))) T_OK(tllm_forward(s, tokens, LONG, 0, LONG, want));
            tllm_state_close(ctx, s);
            s = NULL;
            if (T_OK(tllm_state_open(ctx, k->model, &d, &s)) && T_OK(tllm_state_attach(s, a, 1.0f)))
                T_OK(tllm_forward(s, tokens, LONG, 0, LONG, got));
            near_to(got, want, n);
        }
        tllm_state_close(ctx, s);
        tllm_adapter_close(ctx, a);
        tllm_model_close(ctx, merged);
        tllm_gguf_close(ctx, ga);
        tllm_gguf_close(ctx, gm);
        tllm_writer_close(ctx, wa);
        tllm_writer_close(ctx, wm);
    }
    kit_close(k);
    t_close(ctx);
}

/* ---- control vectors --------------------------------------------------------------------------------------------- */

static tllm_gguf *vector_file(tiny_ctx *ctx, const char *const *name, const uint64_t *width, float *const *v, int n,
                              tllm_writer **w)
{
    tllm_gguf *g = NULL;
    const void *bytes;
    size_t n_bytes;
    int i;
    if (tllm_writer_open(ctx, NULL, w)) return NULL;
    (void)tllm_writer_put_text(ctx, *w, "general.architecture", "controlvector");
    (void)tllm_writer_put_text(ctx, *w, "controlvector.model_hint", "llama");
    (void)tllm_writer_put_i32(ctx, *w, "controlvector.layer_count", n);
    for (i = 0; i < n; i++) {
        tllm_text text;
        text.at = name[i];
        text.n = strlen(name[i]);
        (void)tllm_writer_put_tensor(ctx, *w, text, TLLM_FORMAT_F32, 1, &width[i], v[i]);
    }
    if (!T_OK(tllm_writer_finish(ctx, *w))) return NULL;
    bytes = tllm_writer_memory(*w, &n_bytes);
    return T_OK(tllm_gguf_open_memory(ctx, bytes, n_bytes, &g)) ? g : NULL;
}

/* A model of two layers has its stream after the last one before the final norm and the output: these two are computed
 * here. The stream cannot be recovered from logits without a vector, so the model gets an output of the identity and no
 * weights in its norm. Then rms-normed rows come out, and x + w v can be judged: for a v much larger than x the row is
 * w v / rms(w v) in the limit. */
static void vector_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, "llama")) {
        tllm_about about;
        const tllm_gguf_tensor *out_w = tllm_gguf_tensor_find(k->file, "output.weight"),
                               *norm_w = tllm_gguf_tensor_find(k->file, "output_norm.weight");
        const size_t n = n_logits(k->model), row = n / TOKENS;
        tllm_model_about(k->model, &about);
        if (T_TRUE(out_w && norm_w && about.n_layer == 2)) {
            const size_t D = (size_t)about.n_embd;
            float *v[2], *x = t_guarded((size_t)TOKENS * row), *W = (float *)t_keep(D * row * sizeof *W),
                         *g = (float *)t_keep(D * sizeof *g);
            const char *name = "direction.1";
            const uint64_t width = D;
            tllm_writer *w[2] = { NULL, NULL };
            tllm_gguf *f[2];
            tllm_adapter *a[2] = { NULL, NULL };
            float weight[2] = { 3000.0f, -1000.0f };
            size_t i, j, t;
            v[0] = t_rand(D, -1.0f, 1.0f);
            v[1] = t_rand(D, -1.0f, 1.0f);
            f[0] = vector_file(ctx, &name, &width, &v[0], 1, &w[0]);
            f[1] = vector_file(ctx, &name, &width, &v[1], 1, &w[1]);
            tllm_format_of(out_w->type)->unpack(out_w->data, W, D * row);
            tllm_format_of(norm_w->type)->unpack(norm_w->data, g, D);
            if (f[0] && f[1] && T_OK(tllm_adapter_open(ctx, k->model, f[0], &a[0])) &&
                T_OK(tllm_adapter_open(ctx, k->model, f[1], &a[1]))) {
                double ss = 0.0, size = 0.0;
                T_OK(logits_of(ctx, k->model, (const tllm_adapter *const *)a, weight, 2, TOKENS, x));
                for (j = 0; j < D; j++) {
                    const double s = 3000.0 * (double)v[0][j] - 1000.0 * (double)v[1][j];
                    ss += s * s;
                }
                for (i = 0; i < row; i++) {
                    double y = 0.0;
                    for (j = 0; j < D; j++)
                        y += (double)W[i * D + j] * (double)g[j] *
                             (3000.0 * (double)v[0][j] - 1000.0 * (double)v[1][j]) / sqrt(ss / (double)D);
                    size += y * y / (double)row;
                    /* the stream itself is a few units among thousands: a part in a few hundred */
                    for (t = 0; t < TOKENS; t++) T_CLOSE(x[t * row + i], y, 0.02 * (1.0 + fabs(y)));
                }
                T_TRUE(size > 0.01);
            }
            for (i = 0; i < 2; i++) {
                tllm_adapter_close(ctx, a[i]);
                tllm_gguf_close(ctx, f[i]);
                tllm_writer_close(ctx, w[i]);
            }
        }
    }
    kit_close(k);
    t_close(ctx);
}
static void test_vector(tiny_target target) { vector_by_hand(target); }
static void test_vector_reference(void) { vector_by_hand(TINY_TARGET_REFERENCE); }

/* Exactly: a bias of the last product of layer 1 is a row added to the stream after layer 1. gpt2 has one,
 * ffn_down.bias. */
static void vector_as_bias(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    kit *k = (kit *)t_keep(sizeof *k);
    if (kit_open(k, ctx, "gpt2")) {
        const tllm_gguf_tensor *bias = tllm_gguf_tensor_find(k->file, "blk.1.ffn_down.bias");
        tllm_about about;
        tllm_model_about(k->model, &about);
        if (T_TRUE(bias && bias->type == TLLM_FORMAT_F32 && about.n_layer >= 2)) {
            const size_t n = n_logits(k->model), D = (size_t)about.n_embd;
            float *v[2], *want = t_guarded(n), *got = t_guarded(n), *plain = t_guarded(n),
                         *b = (float *)t_keep(D * sizeof *b);
            static const char *const name[2] = { "direction.1", "direction.2" };
            const uint64_t width[2] = { D, D };
            const int n_dir = about.n_layer > 2 ? 2 : 1;
            const float weight = 0.75f;
            const tllm_adapter *list;
            tllm_writer *w = NULL, *wm = NULL;
            tllm_gguf *f, *gm = NULL;
            tllm_adapter *a = NULL;
            tllm_model *moved = NULL;
            tllm_state *s = NULL;
            const void *bytes;
            void *saved = NULL;
            size_t n_bytes, n_saved, i;
            v[0] = t_rand(D, -1.0f, 1.0f);
            v[1] = t_rand(D, -1.0f, 1.0f);
            f = vector_file(ctx, name, width, v, n_dir, &w);
            memcpy(b, bias->data, D * sizeof *b);
            for (i = 0; i < D; i++) b[i] += 0.75f * v[0][i];
            T_OK(tllm_writer_open(ctx, NULL, &wm));
            for (i = 0; i < tllm_gguf_n_meta(k->file); i++)
                (void)tllm_writer_put_meta(ctx, wm, tllm_gguf_meta_at(k->file, i));
            for (i = 0; i < tllm_gguf_n_tensors(k->file); i++) {
                const tllm_gguf_tensor *t = tllm_gguf_tensor_at(k->file, i);
                (void)tllm_writer_put_tensor(ctx, wm, t->name, t->type, t->rank, t->dim,
                                             t == bias ? (const void *)b : t->data);
            }
            T_OK(tllm_writer_finish(ctx, wm));
            bytes = tllm_writer_memory(wm, &n_bytes);
            if (f && T_OK(tllm_gguf_open_memory(ctx, bytes, n_bytes, &gm)) && T_OK(tllm_model_open(ctx, gm, &moved)) &&
                T_OK(tllm_adapter_open(ctx, k->model, f, &a))) {
                T_OK(tllm_adapter_layers(ctx, a, 1, 1));
                list = a;
                T_OK(logits_of(ctx, k->model, NULL, NULL, 0, TOKENS, plain));
                T_OK(logits_of(ctx, moved, NULL, NULL, 0, TOKENS, want));
                T_OK(logits_of(ctx, k->model, &list, &weight, 1, TOKENS, got));
                T_TRUE(distance(plain, want, n) > 0.02);
                near_to(got, want, n);
                T_OK(logits_of(ctx, k->model, &list, &weight, 1, 1, got));
                near_to(got, want, n);
                if (T_OK(tllm_state_open(ctx, k->model, NULL, &s)) && T_OK(tllm_state_attach(s, a, weight)) &&
                    T_OK(tllm_forward(s, text_of, 2, 0, 0, NULL)) &&
                    T_OK(tllm_state_pack(s, 0, NULL, 0, &saved, &n_saved))) { /* a saved state records its layers */
                    T_OK(tllm_state_unpack(s, 0, saved, n_saved, NULL, 0, NULL));
                    T_OK(tllm_adapter_layers(ctx, a, 1, about.n_layer - 1));
                    if (about.n_layer > 2)
                        T_STATUS(tllm_state_unpack(s, 0, saved, n_saved, NULL, 0, NULL), TINY_E_FORMAT,
                                 "other adapters");
                    T_OK(tllm_state_attach(s, a, 0.0f));
                    T_STATUS(tllm_state_unpack(s, 0, saved, n_saved, NULL, 0, NULL), TINY_E_FORMAT, "other adapters");
                }
                tiny_free(ctx, saved);
                tllm_state_close(ctx, s);
                T_STATUS(tllm_adapter_layers(ctx, a, 0, 1), TINY_E_ARGUMENT, "layers 0 to 1: the limits are 1");
                T_STATUS(tllm_adapter_layers(ctx, a, 1, about.n_layer), TINY_E_ARGUMENT, "the limits are 1 and");
                T_STATUS(tllm_adapter_merge(ctx, k->model, a, 1.0f, TINY_F32), TINY_E_UNSUPPORTED, "cannot be merged");
            }
            tllm_adapter_close(ctx, a);
            tllm_model_close(ctx, moved);
            tllm_gguf_close(ctx, gm);
            tllm_gguf_close(ctx, f);
            tllm_writer_close(ctx, w);
            tllm_writer_close(ctx, wm);
        }
    }
    kit_close(k);
    t_close(ctx);
}
static void test_vector_bias(tiny_target target) { vector_as_bias(target); }
static void test_vector_bias_reference(void) { vector_as_bias(TINY_TARGET_REFERENCE); }

/* ---- refused files ----------------------------------------------------------------------------------------------- */

typedef struct lie { const char *what; tiny_status status; const char *says; } lie;
static const lie lies[] = {
    { "type", TINY_E_FORMAT, "memory: neither an adapter nor a control vector: its general.type is model" },
    { "no type", TINY_E_FORMAT, "its general.type is missing" },
    { "kind", TINY_E_UNSUPPORTED, "adapter.type is not lora" },
    { "arch", TINY_E_ARGUMENT, "made for architecture qwen3, but the model" },
    { "alpha nan", TINY_E_FORMAT, "adapter.lora.alpha is not a finite number" },
    { "alpha inf", TINY_E_FORMAT, "adapter.lora.alpha is not a finite number" },
    { "alpha text", TINY_E_FORMAT, "adapter.lora.alpha is not a finite number" },
    { "alora", TINY_E_UNSUPPORTED, "invocation_tokens" },
    { "empty", TINY_E_FORMAT, "the adapter has no tensors" },
    { "suffix", TINY_E_FORMAT, "tensor blk.0.attn_q.weight is neither the lora_a nor the lora_b" },
    { "unknown", TINY_E_FORMAT, "tensor blk.7.attn_q.weight.lora_a: the model" },
    { "alone a", TINY_E_FORMAT, "tensor blk.0.attn_q.weight.lora_a has no matching lora_b" },
    { "alone b", TINY_E_FORMAT, "tensor blk.0.attn_q.weight.lora_b has no matching lora_a" },
    { "norm", TINY_E_UNSUPPORTED, "tensor blk.0.attn_norm.weight of the model is not a matrix" },
    { "rank", TINY_E_SHAPE,
      "tensor blk.0.attn_q.weight: lora_a is 64x4 and lora_b 3x64; 64 x rank and rank x 64 are needed" },
    { "width", TINY_E_SHAPE, "lora_a is 32x4 and lora_b 4x64" },
    { "height", TINY_E_SHAPE, "lora_a is 64x4 and lora_b 4x32" },
    { "turned", TINY_E_SHAPE, "lora_a is 4x64 and lora_b 64x4" },
    { "embd", TINY_E_SHAPE,
      "tensor token_embd.weight: lora_a is 64x4 and lora_b 4x320; rank x 320 and rank x 64 are needed" },
    { "direction 0", TINY_E_FORMAT, "tensor direction.0 is not a direction.N with N from 1" },
    { "direction x", TINY_E_FORMAT, "tensor direction.x is not a direction.N" },
    { "direction 01", TINY_E_FORMAT, "tensor direction.01 is not a direction.N" },
    { "direction 2", TINY_E_SHAPE, "tensor direction.2 is for a layer that the model does not have: its last is 1" },
    { "direction wide", TINY_E_SHAPE, "tensor direction.1 is 65, but the model is 64 wide" },
    { "direction none", TINY_E_FORMAT, "the control vector has no tensors" }
};

static void test_false_descriptions(void)
{
    static const float zeros[4096] = { 0 };
    const char *folder = getenv("T_CORPUS");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    kit *k = (kit *)t_keep(sizeof *k);
    size_t i;
    if (kit_open(k, ctx, "llama"))
        for (i = 0; i < T_COUNT(lies); i++) {
            const char *what = lies[i].what;
            const int vector = !strncmp(what, "direction", 9);
            tllm_writer *w = NULL;
            tllm_gguf *g = NULL;
            tllm_adapter *a = (tllm_adapter *)(void *)k;
            const void *bytes;
            size_t n_bytes;
#define IS(name) (!strcmp(what, name))
            T_OK(tllm_writer_open(ctx, NULL, &w));
            if (!IS("no type")) (void)tllm_writer_put_text(ctx, w, "general.type", IS("type") ? "model" : "adapter");
            (void)tllm_writer_put_text(ctx, w, "general.architecture",
                                       vector       ? "controlvector"
                                       : IS("arch") ? "qwen3"
                                                    : "llama");
            (void)tllm_writer_put_text(ctx, w, "adapter.type", IS("kind") ? "loha" : "lora");
            if (IS("alpha text")) (void)tllm_writer_put_text(ctx, w, "adapter.lora.alpha", "16");
            else
                (void)tllm_writer_put_f32(ctx, w, "adapter.lora.alpha",
                                          IS("alpha nan")   ? NAN
                                          : IS("alpha inf") ? INFINITY
                                                            : 8.0f);
            if (IS("alora")) (void)tllm_writer_put_u32(ctx, w, "adapter.alora.invocation_tokens", 3);
            if (vector) {
                tllm_text text;
                uint64_t d = IS("direction wide") ? 65 : 64;
                text.at = IS("direction 0")    ? "direction.0"
                          : IS("direction x")  ? "direction.x"
                          : IS("direction 01") ? "direction.01"
                          : IS("direction 2")  ? "direction.2"
                                               : "direction.1";
                text.n = strlen(text.at);
                if (!IS("direction none")) (void)tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, 1, &d, zeros);
            } else if (!IS("empty")) {
                const char *name = IS("unknown") ? "blk.7.attn_q.weight"
                                   : IS("norm")  ? "blk.0.attn_norm.weight"
                                   : IS("embd")  ? "token_embd.weight"
                                                 : "blk.0.attn_q.weight";
                if (IS("suffix")) put_tensor(ctx, w, name, "", 64, 4, 1, zeros);
                else {
                    if (!IS("alone b"))
                        put_tensor(ctx, w, name, ".lora_a",
                                   IS("width")    ? 32
                                   : IS("turned") ? 4
                                                  : 64,
                                   IS("turned") ? 64 : 4, 1, zeros);
                    if (!IS("alone a"))
                        put_tensor(ctx, w, name, ".lora_b",
                                   IS("rank")     ? 3
                                   : IS("turned") ? 64
                                                  : 4,
                                   IS("turned")   ? 4
                                   : IS("height") ? 32
                                   : IS("embd")   ? 320
                                                  : 64,
                                   1, zeros);
                }
            }
            T_OK(tllm_writer_finish(ctx, w));
            bytes = tllm_writer_memory(w, &n_bytes);
            if (folder) {
                char path[600];
                size_t c;
                (void)snprintf(path, sizeof path, "%s/%s", folder, what);
                for (c = strlen(folder) + 1; path[c]; c++) if (path[c] == ' ') path[c] = '-';
                T_OK(tiny_file_write(ctx, path, bytes, n_bytes));
            }
            if (T_OK(tllm_gguf_open_memory(ctx, bytes, n_bytes, &g))) {
                if (!T_STATUS(tllm_adapter_open(ctx, k->model, g, &a), lies[i].status, lies[i].says))
                    printf("    in %s\n", what);
                T_TRUE(a == NULL);
                tllm_adapter_close(ctx, a);
            }
            tllm_gguf_close(ctx, g);
            tllm_writer_close(ctx, w);
        }
    T_STATUS(tllm_adapter_open(ctx, k->model, NULL, NULL), TINY_E_ARGUMENT, "the model, the file or the result");
    kit_close(k);
    t_close(ctx);
}

static void test_each_allocation(void)
{
    const char *full = t_shared("oracle/llm/llama.gguf");
    tiny_ctx *outside = t_ctx(TINY_TARGET_SCALAR, 1);
    kit *k = (kit *)t_keep(sizeof *k);
    tllm_writer *w = NULL;
    tllm_gguf *g = NULL;
    const void *bytes;
    size_t n_bytes = 0;
    if (full && kit_open(k, outside, "llama")) {
        kit_patch(k, "blk.0.attn_q.weight", 2, 0.1f);
        kit_patch(k, "token_embd.weight", 2, 0.1f);
        g = kit_adapter(k, "llama", 1.0f, 0, 2, &w);
        bytes = tllm_writer_memory(w, &n_bytes);
        T_EACH_ALLOCATION({
            tiny_ctx_desc d = t_desc(TINY_TARGET_SCALAR, 1);
            tiny_ctx *ctx = NULL;
            tllm_gguf *file = NULL;
            tllm_gguf *made = NULL;
            tllm_model *model = NULL;
            tllm_adapter *a = NULL;
            tllm_state *s = NULL;
            tllm_state_desc room;
            memset(&room, 0, sizeof room);
            room.n_ctx = 8;
            if (!tiny_ctx_open(&d, &ctx)) {
                if (!tllm_gguf_open(ctx, full, &file) && !tllm_model_open(ctx, file, &model) &&
                    !tllm_gguf_open_memory(ctx, bytes, n_bytes, &made)) {
                    if (tllm_adapter_open(ctx, model, made, &a)) T_TRUE(a == NULL);
                    else if (!tllm_state_open(ctx, model, &room, &s) && !tllm_state_attach(s, a, 1.0f))
                        (void)tllm_adapter_merge(ctx, model, a, 1.0f, TINY_F32);
                }
                tllm_state_close(ctx, s);
                tllm_adapter_close(ctx, a);
                tllm_gguf_close(ctx, made);
                tllm_model_close(ctx, model);
                tllm_gguf_close(ctx, file);
                tiny_ctx_close(ctx);
            }
        })
    }
    tllm_gguf_close(outside, g);
    tllm_writer_close(outside, w);
    kit_close(k);
    t_close(outside);
}

int main(void)
{
    T_RUN_TARGETS(test_llama);
    T_RUN_TARGETS(test_llama_q8_0);
    T_RUN_TARGETS(test_deepseek2);
    T_RUN_TARGETS(test_plm);
    T_RUN_TARGETS(test_gpt2);
    T_RUN_TARGETS(test_bert);
    T_RUN_TARGETS(test_mamba);
    T_RUN(test_experts);
    T_RUN_TARGETS(test_nanbeige);
    T_RUN(test_reference);
    T_RUN(test_share);
    T_RUN(test_saved);
    T_RUN_TARGETS(test_weights);
    T_RUN_TARGETS(test_long);
    T_RUN_TARGETS(test_vector);
    T_RUN(test_vector_reference);
    T_RUN_TARGETS(test_vector_bias);
    T_RUN(test_vector_bias_reference);
    T_RUN(test_false_descriptions);
    T_RUN(test_each_allocation);
    return t_done();
}
