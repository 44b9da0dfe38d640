/* tests/llm/compress/thin.c - whole heads and neurons that go: exact where they add nothing, fitted elsewhere
 *
 * Truth    a model whose output matrices have columns of zeros: the heads and neurons of these columns can go without a
 *          change; the numbers of a smaller file by a formula written here; the order of losses and divergences */
#include "llm/model/apart.h"
#include "llm/compress/divergence.h"

#ifdef TINYLLM_NO_THIN
int main(void) { return t_done(); }
#else

/* 128 wide, 4 layers, 4 query and 2 key heads of 32, 256 neurons */
static const char small[] = "examples/models/story-small.gguf";
enum { TEXT = 600 };

static void tokens_of(int32_t *token)
{
    tllm_story story = tllm_story_start(5);
    int i;
    for (i = 0; i < TEXT; i++) token[i] = tllm_story_draw(&story, NULL, NULL);
}

static int thinned(tiny_ctx *ctx, const tllm_gguf *g, const tllm_thin_desc *d, made *m, tllm_thin_about *about)
{
    int32_t token[TEXT];
    tllm_thin *t = NULL;
    int ok;
    memset(m, 0, sizeof *m);
    tokens_of(token);
    ok = T_OK(tllm_thin_open(ctx, g, d, &t)) && T_OK(tllm_writer_open(ctx, NULL, &m->w)) &&
         T_OK(tllm_thin_put(ctx, t, token, TEXT, m->w)) && made_end(ctx, m);
    *about = tllm_thin_what(t);
    tllm_thin_close(ctx, t);
    return ok;
}

static float *logits_of(tiny_ctx *ctx, const tllm_gguf *g)
{
    float *y = (float *)t_keep(32 * 544 * sizeof *y);
    int32_t token[TEXT];
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    memset(y, 0, 32 * 544 * sizeof *y);
    tokens_of(token);
    if (T_OK(tllm_model_open(ctx, g, &m)) && T_OK(tllm_state_open(ctx, m, NULL, &s)))
        T_OK(tllm_forward(s, token, 32, 0, 32, y));
    tllm_state_close(ctx, s);
    tllm_model_close(ctx, m);
    return y;
}

/* the model in floats; heads 0 and 3 and every fourth neuron add nothing */
static int dead(tiny_ctx *ctx, const tllm_gguf *g, made *m)
{
    size_t i, k;
    int ok = T_OK(tllm_writer_open(ctx, NULL, &m->w));
    for (i = 0; ok && i < tllm_gguf_n_meta(g); i++) ok = T_OK(tllm_writer_put_meta(ctx, m->w, tllm_gguf_meta_at(g, i)));
    for (i = 0; ok && i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const size_t n = (size_t)(t->dim[0] * t->dim[1]), row = (size_t)t->dim[0];
        const int out = t->name.n > 10 && strstr(t->name.at, "attn_output") == t->name.at + 6,
                  down = t->name.n > 10 && strstr(t->name.at, "ffn_down") == t->name.at + 6;
        float *x = (float *)t_keep(n * sizeof *x);
        tllm_format_of(t->type)->unpack(t->data, x, n);
        for (k = 0; k < n && (out || down); k++)
            if (out ? k % row / 32 == 0 || k % row / 32 == 3 : k % row % 4 == 1) x[k] = 0.0f;
        ok = T_OK(tllm_writer_put_tensor(ctx, m->w, t->name, TLLM_FORMAT_F32, t->rank, t->dim, x));
    }
    return ok && made_end(ctx, m);
}

static void test_dead(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    tllm_thin_desc d;
    tllm_thin_about a;
    made was, now;
    int plain;
    t_case(small, 1);
    if (!T_OK(tllm_gguf_open(ctx, small, &g)) || !dead(ctx, g, &was)) return;
    for (plain = 0; plain < 2; plain++) {
        memset(&d, 0, sizeof d);
        d.heads = 0.5;
        d.neurons = 0.25;
        d.plain = plain;
        if (!thinned(ctx, was.file, &d, &now, &a)) break;
        T_TRUE(a.n_head == 2 && a.n_kv == 2 && a.n_ff == 192);
        T_TRUE(a.lost < 1e-9 && a.tokens == TEXT);
        /* a layer: q 64 x 128, k and v as before, o 128 x 64, three matrices of 192, two norms; embedding, norm */
        T_CLOSE(a.params, 4 * (2.0 * 64 * 128 + 2.0 * 64 * 128 + 3.0 * 192 * 128 + 256) + 544.0 * 128 + 128, 0.0);
        T_CLOSE(a.params_before, 660608.0, 0.0);
        T_TRUE(apart(logits_of(ctx, was.file), logits_of(ctx, now.file), 32 * 544) < 1e-5);
        drop(ctx, &now);
    }
    drop(ctx, &was);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
    T_PROOF("compression 3", "heads and neurons that add nothing go without a change of the logits");
}

static void test_story(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    tllm_thin_desc d;
    tllm_thin_about a;
    double kl[2], lost[2];
    made m;
    int plain;
    t_case(small, 1);
    if (!T_OK(tllm_gguf_open(ctx, small, &g))) return;
    memset(&d, 0, sizeof d);
    if (thinned(ctx, g, &d, &m, &a)) {      /* nothing goes: the same bytes */
        T_SAME(logits_of(ctx, m.file), logits_of(ctx, g), 32 * 544);
        T_TRUE(a.n_head == 4 && a.n_ff == 256 && a.params == a.params_before && a.lost == 0.0);
        drop(ctx, &m);
    }
    for (plain = 0; plain < 2; plain++) {
        d.neurons = 0.25;
        d.plain = plain;
        kl[plain] = lost[plain] = 0;
        if (!thinned(ctx, g, &d, &m, &a)) break;
        kl[plain] = divergence(ctx, g, m.file);
        lost[plain] = a.lost;
        drop(ctx, &m);
    }
    if (getenv("T_SAY")) printf("  divergence %g, cut alone %g; lost %g, %g\n", kl[0], kl[1], lost[0], lost[1]);
    T_TRUE(lost[0] > 0.0 && lost[0] < 0.7 * lost[1]);
    T_TRUE(kl[0] > 0.0 && kl[0] < 0.95 * kl[1]);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
    T_PROOF("compression 3", "fitting what stays loses less than cutting alone");
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL, *latent = NULL;
    tllm_thin *t = NULL;
    tllm_thin_desc d;
    int32_t token[TEXT];
    t_case(small, 1);
    if (!T_OK(tllm_gguf_open(ctx, small, &g)) ||
        !T_OK(tllm_gguf_open(ctx, "examples/models/story-latent.gguf", &latent)))
        return;
    memset(&d, 0, sizeof d);
    d.heads = 1.0;
    T_STATUS(tllm_thin_open(ctx, g, &d, &t), TINY_E_ARGUMENT, "shares are 0 or more and below 1");
    d.heads = 0.5;
    d.neurons = NAN;
    T_STATUS(tllm_thin_open(ctx, g, &d, &t), TINY_E_ARGUMENT, "below 1");
    d.neurons = 0.3;
    d.round = 1;
    T_STATUS(tllm_thin_open(ctx, g, &d, &t), TINY_E_ARGUMENT, "not whole blocks of Q8_0");
    T_STATUS(tllm_thin_open(ctx, latent, NULL, &t), TINY_E_UNSUPPORTED, "layer 0 is not attention with separate");
    T_STATUS(tllm_thin_open(ctx, NULL, NULL, &t), TINY_E_ARGUMENT, "the file or the result pointer");
    T_TRUE(t == NULL);
    tokens_of(token);
    if (T_OK(tllm_thin_open(ctx, g, NULL, &t))) {
        T_STATUS(tllm_thin_put(ctx, t, token, TEXT, NULL), TINY_E_ARGUMENT, "a writer and at least one token");
        tllm_thin_close(ctx, t);
    }
    T_EQ_INT(tllm_thin_what(NULL).tokens, 0);
    tllm_gguf_close(ctx, latent);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_dead);
    T_RUN(test_story);
    T_RUN(test_refused);
    return t_done();
}
#endif
