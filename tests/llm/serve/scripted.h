/* tests/llm/serve/scripted.h - a model that says what a test wants: after token i comes token next[i], nearly always,
 * or other[i] where a grammar forbids it
 *
 * One layer whose attention and feed-forward network add nothing. The embedding of token i is the i-th unit vector, and
 * the rows of the output for next[i] and other[i] look at it alone. Token 0 is <unk>, 1 is <s>, 2 is </s>, the end. */
enum { SCRIPT_WIDTH = 64, SCRIPT_END = 2 };

typedef struct scripted {
    tllm_writer *file;
    tllm_session *session;
} scripted;

/* piece, next, other: n <= SCRIPT_WIDTH of them, the first three included; blank: the encoder
 * puts a blank before a text */
T_FN scripted script_open(tiny_ctx *ctx, const char *const *piece, const int *next, const int *other, size_t n,
                           int blank)
{
    enum { W = SCRIPT_WIDTH };
    static const struct {
        const char *name;
        int rank;
        int what;                           /* 0: zeros, 1: ones, 2: unit vectors, 3: the script */
    } tensor[] = { { "token_embd.weight", 2, 2 },       { "output.weight", 2, 3 },
                   { "output_norm.weight", 1, 1 },      { "blk.0.attn_norm.weight", 1, 1 },
                   { "blk.0.ffn_norm.weight", 1, 1 },   { "blk.0.attn_q.weight", 2, 0 },
                   { "blk.0.attn_k.weight", 2, 0 },     { "blk.0.attn_v.weight", 2, 0 },
                   { "blk.0.attn_output.weight", 2, 0 }, { "blk.0.ffn_gate.weight", 2, 0 },
                   { "blk.0.ffn_up.weight", 2, 0 },     { "blk.0.ffn_down.weight", 2, 0 } };
    scripted s;
    float *data[4], score[W];
    tllm_text text[W];
    int32_t type[W];
    const void *bytes;
    size_t i, n_bytes = 0;
    memset(&s, 0, sizeof s);
    T_TRUE(n > 3 && n <= W);
    for (i = 0; i < 4; i++) data[i] = (float *)t_keep(W * W * sizeof **data);
    for (i = 0; i < 4; i++) memset(data[i], 0, W * W * sizeof **data);
    for (i = 0; i < W; i++) data[1][i] = 1.0f;
    for (i = 0; i < n; i++) {
        data[2][i * W + i] = 1.0f;
        data[3][(size_t)next[i] * W + i] = 4.0f;        /* the norm makes 8 of the 1: a logit of 32 */
        if (other[i] != next[i]) data[3][(size_t)other[i] * W + i] = 2.0f;
        text[i].at = piece[i];
        text[i].n = strlen(piece[i]);
        score[i] = -(float)i;
        type[i] = i == 0 ? 2 : i < 3 ? 3 : 1;
    }
    T_OK(tllm_writer_open(ctx, NULL, &s.file));
    (void)tllm_writer_put_text(ctx, s.file, "general.architecture", "llama");
    (void)tllm_writer_put_text(ctx, s.file, "general.name", "script");
    (void)tllm_writer_put_u32(ctx, s.file, "llama.block_count", 1);
    (void)tllm_writer_put_u32(ctx, s.file, "llama.context_length", 256);
    (void)tllm_writer_put_u32(ctx, s.file, "llama.embedding_length", W);
    (void)tllm_writer_put_u32(ctx, s.file, "llama.feed_forward_length", W);
    (void)tllm_writer_put_u32(ctx, s.file, "llama.attention.head_count", 2);
    (void)tllm_writer_put_f32(ctx, s.file, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    (void)tllm_writer_put_text(ctx, s.file, "tokenizer.ggml.model", "llama");
    (void)tllm_writer_put_array(ctx, s.file, "tokenizer.ggml.tokens", TLLM_STRING, text, n);
    (void)tllm_writer_put_array(ctx, s.file, "tokenizer.ggml.scores", TLLM_F32, score, n);
    (void)tllm_writer_put_array(ctx, s.file, "tokenizer.ggml.token_type", TLLM_I32, type, n);
    (void)tllm_writer_put_bool(ctx, s.file, "tokenizer.ggml.add_space_prefix", blank);
    (void)tllm_writer_put_bool(ctx, s.file, "tokenizer.ggml.add_bos_token", 0);
    for (i = 0; i < T_COUNT(tensor); i++) {
        uint64_t dim[2];
        tllm_text name;
        name.at = tensor[i].name;
        name.n = strlen(name.at);
        dim[0] = W;
        dim[1] = tensor[i].what > 1 ? n : W;
        (void)tllm_writer_put_tensor(ctx, s.file, name, TLLM_FORMAT_F32, tensor[i].rank, dim, data[tensor[i].what]);
    }
    T_OK(tllm_writer_finish(ctx, s.file));
    bytes = tllm_writer_memory(s.file, &n_bytes);
    T_OK(tllm_session_open_memory(ctx, bytes, n_bytes, NULL, &s.session));
    return s;
}
T_FN void script_close(tiny_ctx *ctx, scripted *s)
{
    tllm_session_close(s->session);
    tllm_writer_close(ctx, s->file);
    memset(s, 0, sizeof *s);
}
