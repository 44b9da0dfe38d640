/* tests/llm/session/pooling.c - decoders that give embeddings: no call mistakes their hidden states for logits
 *
 * One key, llama.pooling_type, makes an embedding model of any decoder: its rows have n_embd numbers, fewer than the
 * vocabulary has tokens.
 * The key is put into the bytes of a model, and calls that need a text are refused: the address sanitizer sees a call
 * that reads on all the same. */
#include "t.h"
#include "llm/file/kit.h"

/* the file of name with llama.pooling_type = type in front of its keys, and padding that keeps the data aligned */
static kit_image with_pooling(const char *name, uint32_t type)
{
    kit_image keys, m;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tiny_file f;
    memset(&m, 0, sizeof m);
    memset(&keys, 0, sizeof keys);
    kit_key_u32(&keys, "llama.pooling_type", type);
    kit_key(&keys, "a", TLLM_STRING);
    kit_text(&keys, "123456789");
    if (T_TRUE(keys.n == 64) && T_OK(tiny_file_copy(ctx, name, &f))) {
        kit_bytes(&m, (const char *)f.bytes, 16);
        kit_u64(&m, kit_get_le(f.bytes + 16, 8) + 2);
        kit_bytes(&m, (const char *)keys.b, keys.n);
        kit_bytes(&m, (const char *)f.bytes + 24, f.n_bytes - 24);
        tiny_file_close(ctx, &f);
    }
    kit_free(&keys);
    t_close(ctx);
    return m;
}

static int heard(void *user, const char *text, size_t n)
{
    (void)text;
    *(size_t *)user += n;
    return 0;
}

static void test_no_text(void)
{
    static const char says[] = "gives embeddings, not text";
    const int32_t token[3] = { 1, 2, 3 };
    uint32_t i;
    size_t k;
    for (i = 1; i <= 3; i++) {              /* mean, cls, last */
        kit_image m = with_pooling("tests/golden/oracle/llm/llama-q4_0.gguf", i);
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_about about;
        tllm_session *s = NULL;
        tllm_state_desc d;
        memset(&d, 0, sizeof d);
        d.n_ctx = 16;
        d.n_seq = 2;
        if (T_OK(tllm_session_open_memory(ctx, m.b, m.n, &d, &s))) {
            const float *x = NULL;
            float *row;
            double sum = 0.0;
            size_t n_heard = 0, n;
            tllm_generate_desc g;
            tllm_generate_result r;
            tllm_beam_desc b;
            tllm_parallel_desc p;
            tllm_continuation out[2];
            memset(&g, 0, sizeof g);
            memset(&b, 0, sizeof b);
            memset(&p, 0, sizeof p);
            g.text = heard;
            g.user = &n_heard;
            g.n_most = 4;
            b.width = p.n_texts = 2;
            b.n_most = p.n_most = 4;
            tllm_model_about(tllm_session_model(s), &about);
            T_TRUE(about.output == TLLM_HIDDEN && !about.is_encoder && about.n_out == about.n_embd &&
                   about.n_out < about.n_vocab);
            T_STATUS(tllm_generate(s, "ab", 2, &g, &r), TINY_E_UNSUPPORTED, says);
            T_STATUS(tllm_generate_tokens(s, token, 3, &g, &r), TINY_E_UNSUPPORTED, says);
            T_EQ_INT(n_heard, 0);
            T_STATUS(tllm_session_feed(s, token, 3, &x), TINY_E_UNSUPPORTED, says);
            T_STATUS(tllm_session_set(s, token, 3, &x, NULL), TINY_E_UNSUPPORTED, says);
            T_STATUS(tllm_session_shift(s, 0, &x), TINY_E_UNSUPPORTED, says);
            T_TRUE(x == NULL);
            T_STATUS(tllm_beam(s, token, 3, &b, out, &n), TINY_E_UNSUPPORTED, says);
            T_STATUS(tllm_parallel(s, token, 3, &p, out), TINY_E_UNSUPPORTED, says);
            (void)tllm_session_tokens(s, &n);
            T_EQ_INT(n, 0);
            /* the purpose of the model */
            T_OK(tllm_session_feed(s, token, 3, NULL));
            T_OK(tllm_session_trim(s, 2));
            row = (float *)t_keep((size_t)about.n_embd * sizeof *row);
            T_OK(tllm_embed(s, "ab", 2, -1, row));
            for (k = 0; k < (size_t)about.n_embd; k++) sum += (double)row[k] * (double)row[k];
            T_CLOSE(sum, 1.0, 1e-5);
        }
        tllm_session_close(s);
        kit_free(&m);
        t_close(ctx);
    }
}

/* The bytes that tllm_session_memory reports are those that are allocated: no room for logits that never exist. */
static void test_memory(void)
{
    static const char *const file = "build/session-pooling.tmp";
    kit_image m = with_pooling("tests/golden/oracle/llm/llama-q4_0.gguf", 3);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    const size_t before = tiny_ctx_bytes(ctx);
    size_t told = 0;
    tllm_session *s = NULL;
    if (T_OK(tiny_file_write(ctx, file, m.b, m.n)) && T_OK(tllm_session_memory(ctx, file, NULL, &told)) &&
        T_OK(tllm_session_open(ctx, file, NULL, &s)))
        T_EQ_INT(tiny_ctx_bytes(ctx) - before, told);
    tllm_session_close(s);
    (void)remove(file);
    kit_free(&m);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_no_text);
    T_RUN(test_memory);
    return t_done();
}
